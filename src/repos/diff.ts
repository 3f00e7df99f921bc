import { isUtf8 } from "node:buffer";
import { lstat } from "node:fs/promises";
import type { ChangedFile, DiffFormat } from "../contract/diff.ts";
import { capture } from "./capture.ts";
import { copyIndex, emptyTree, readRefs, requireDirectory } from "./clone.ts";
import { attempt } from "./failure.ts";
import { type GitContext, cacheGitDir, runGit } from "./git-context.ts";
import { restoreGitDirectory } from "./git-directory.ts";
import { type OwnerFile, readOwner } from "./owner-file.ts";
import type { Diff, DiffRequest } from "./repos.ts";
import { savedIn } from "./saved.ts";
import { withBorrower } from "./submodule.ts";
import { repoKey } from "./url.ts";
import { indexOf } from "./wall.ts";

/**
 * A change, compared outside the worktree: an agent may work in it meanwhile. Null: a commit of it is not here. Works in a
 * temporary git directory that borrows the objects of the clones: it reads no configuration that an agent can write, and
 * changes nothing that an agent uses.
 * @throws RepoError `worktree_failed`
 */
export const diffChange = (context: GitContext, request: DiffRequest): Promise<Diff | null> =>
  attempt(context, "worktree_failed", "compare the files", async () => {
    const { repoUrl, worktreeId, head } = request;
    const owned = worktreeId === null ? null : await readOwner(context, worktreeId);
    const cacheDir = cacheGitDir(context, repoUrl === "" ? null : repoKey(repoUrl));
    // Without saved work where git goes behind the wall.
    const lenders = [cacheDir, head === null ? [] : savedIn(cacheDir), owned?.worktree.ownDir ?? []].flat();
    return await withBorrower(context, lenders, (gitDir) =>
      compareIn(context, { gitDir, cacheDir, owned, request }),
    );
  });

const compareIn = async (context: GitContext, scratch: Scratch): Promise<Diff | null> => {
  const { gitDir, request } = scratch;
  const { head } = request;
  const sides = await (head === null ? filesNow(context, scratch) : commitOf(context, scratch, head));
  if (sides === null) return null;
  const { tree: to, ...rest } = sides;
  const between = { from: sides.base ?? emptyTree, to };
  const files = await changedFiles(context, gitDir, between);
  return { ...rest, files, ...(await textBetween(context, gitDir, { ...between, ...request })) };
};

type Scratch = { gitDir: string; cacheDir: string; owned: OwnerFile | null; request: DiffRequest };

type Sides = Pick<Diff, "base" | "head" | "kept"> & { tree: string };

const filesNow = async (context: GitContext, { gitDir, owned }: Scratch): Promise<Sides | null> => {
  if (owned === null) return null;
  const { worktree } = owned;
  await requireDirectory(worktree);
  // The service's own index tells git which files are unchanged; without it git reads them all.
  await copyIndex(indexOf(worktree.ownDir), indexOf(gitDir));
  const { tree, kept } = await capture(context, { ...worktree, ownDir: gitDir }, { live: true });
  return { base: worktree.baseSha, head: null, tree, kept };
};

const commitOf = async (
  context: GitContext,
  { gitDir, cacheDir, request }: Scratch,
  head: string,
): Promise<Sides | null> => {
  const { repoUrl, base } = request;
  if ((await lstat(cacheDir).catch(() => null)) !== null)
    await restoreGitDirectory(context, cacheDir, { url: repoUrl, bare: true });
  const isCommit = /^[0-9a-f]{40}$/.test(head);
  const commit = isCommit ? head : (await readRefs(savedIn(cacheDir), [head])).get(head);
  if (commit === undefined) return null;
  const wanted = base === null ? [commit] : [commit, base];
  const input = wanted.map((name) => `${name}^{tree}\n`).join("");
  const { stdout } = await runGit(context, gitDir, ["cat-file", "--batch-check"], { input });
  return stdout.includes(" missing\n") ? null : { base, head: commit, tree: commit, kept: [] };
};

type Between = { from: string; to: string };

const compare = ["diff-tree", "-r", "--find-renames", "--no-ext-diff", "--no-textconv"];

const statuses: Record<string, ChangedFile["status"]> = {
  A: "added",
  D: "deleted",
  R: "renamed",
  T: "type_changed",
};

/** The files that differ between two trees, with how many lines of each. */
export const changedFiles = async (
  context: GitContext,
  gitDir: string,
  { from, to }: Between,
): Promise<ChangedFile[]> => {
  const { stdout } = await runGit(context, gitDir, [...compare, "-z", "--raw", "--numstat", from, to]);
  const files = new Map<string, ChangedFile>();
  const fields = stdout.split("\0").values();
  const next = (): string => fields.next().value ?? "";
  // First a status for each file, then the lines of each: `:100644 100644 … M`, `3\t2\tpath`, each with its paths.
  for (let entry = next(); entry !== ""; entry = next()) {
    if (entry.startsWith(":")) {
      const status = statuses[entry.split(" ")[4]?.charAt(0) ?? ""] ?? "modified";
      const old_path = status === "renamed" ? next() : null;
      const path = next();
      files.set(path, { path, old_path, status, insertions: 0, deletions: 0, binary: false });
      continue;
    }
    const [added = "", deleted = "", ...rest] = entry.split("\t");
    const path = rest.join("\t") || (next(), next());
    const lines = { insertions: Number(added) || 0, deletions: Number(deleted) || 0, binary: added === "-" };
    Object.assign(files.get(path) ?? {}, lines);
  }
  return [...files.values()];
};

const options: Record<DiffFormat, string[]> = {
  patch: ["--patch", "--binary", "--full-index"],
  stat: ["--stat"],
  names: ["--name-only"],
};

const textBetween = async (
  context: GitContext,
  gitDir: string,
  { from, to, format, maxBytes }: Between & DiffRequest,
): Promise<Pick<Diff, "text" | "truncated" | "lossy">> => {
  let text = "";
  const enough = new Error("the diff is larger than asked for");
  const onOutput = (piece: string): void => {
    text += piece;
    if (text.length > maxBytes) throw enough;
  };
  const args = [...compare, ...options[format], from, to];
  await runGit(context, gitDir, args, { encoding: "latin1", onOutput }).catch((error: unknown) => {
    if (error !== enough) throw error;
  });
  const truncated = text.length > maxBytes;
  if (truncated) {
    const border = format === "patch" ? "\ndiff --git " : "\n";
    text = text.slice(0, text.lastIndexOf(border, maxBytes) + 1);
  }
  const bytes = Buffer.from(text, "latin1");
  return { text: bytes.toString(), truncated, lossy: !isUtf8(bytes) };
};
