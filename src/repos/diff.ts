import { isUtf8 } from "node:buffer";
import { lstat } from "node:fs/promises";
import type { ChangedFile } from "../contract/diff.ts";
import { capture } from "./capture.ts";
import { copyIndex, emptyTree, readRefs, requireDirectory } from "./clone.ts";
import { attempt } from "./failure.ts";
import { type GitContext, cacheGitDir, runGit } from "./git-context.ts";
import { restoreGitDirectory } from "./git-directory.ts";
import { objectsAt } from "./git-objects.ts";
import { type OwnerFile, readOwner } from "./owner-file.ts";
import { type Diff, type DiffRequest, savedDirOf } from "./repos.ts";
import { createPatchReader } from "./patch-text.ts";
import { pathBytes, pathText } from "./path-bytes.ts";
import { withBorrower } from "./submodule.ts";
import { repoKey } from "./url.ts";
import { indexOf } from "./wall.ts";

/**
 * A change, compared while an agent may work: in a temporary git directory, which borrows the objects of the clones, reads no
 * configuration of an agent, and changes nothing. Null: a commit of it is not here. @throws RepoError `worktree_failed`
 */
export const diffChange = (context: GitContext, request: DiffRequest): Promise<Diff | null> =>
  attempt(context, "worktree_failed", "compare the files", async () => {
    const { repoUrl, worktreeId, head } = request;
    const owned = worktreeId === null ? null : await readOwner(context, worktreeId);
    const cacheDir = cacheGitDir(context, repoUrl === "" ? null : repoKey(repoUrl));
    // Without saved work where git goes behind the wall.
    const saved = head === null ? [] : savedDirOf(cacheDir);
    const lenders = [cacheDir, saved, owned?.worktree.ownDir ?? []].flat();
    const compared = (gitDir: string) => compareIn(context, { gitDir, cacheDir, owned, request });
    return await withBorrower(context, lenders, compared);
  });

const compareIn = async (context: GitContext, scratch: Scratch): Promise<Diff | null> => {
  const { gitDir, request } = scratch;
  const { head } = request;
  const sides = await (head === null ? filesNow(context, scratch) : commitOf(context, scratch, head));
  if (sides === null) return null;
  const { tree: to, ...rest } = sides;
  const between = { from: sides.base ?? emptyTree, to };
  const entries = await withSizes(context, gitDir, await changedFiles(context, gitDir, between));
  const compared = request.format === "patch" ? patchBetween : textBetween;
  const { latin1, truncated } = await compared(context, gitDir, { ...between, ...request, entries });
  const bytes = pathBytes(latin1);
  return { ...rest, files: entries.map(fileOf), text: bytes.toString(), truncated, lossy: !isUtf8(bytes) };
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

const commitOf = async (context: GitContext, { gitDir, cacheDir, request }: Scratch, head: string) => {
  const { repoUrl, base } = request;
  if ((await lstat(cacheDir).catch(() => null)) !== null)
    await restoreGitDirectory(context, cacheDir, { url: repoUrl, bare: true });
  const isCommit = /^[0-9a-f]{40}$/.test(head);
  const commit = isCommit ? head : (await readRefs(savedDirOf(cacheDir), [head])).get(head);
  if (commit === undefined) return null;
  const wanted = base === null ? [commit] : [commit, base];
  const trees = wanted.map((name) => `${name}^{tree}`);
  const isMissing = (await objectsAt(context, gitDir, trees)).includes(null);
  return isMissing ? null : { base, head: commit, tree: commit, kept: [] };
};

type Between = { from: string; to: string };

const compare = ["diff-tree", "-r", "--find-renames", "--no-ext-diff", "--no-textconv"];

const statuses: Record<string, ChangedFile["status"]> = {
  A: "added",
  D: "deleted",
  R: "renamed",
  T: "type_changed",
};

/** Git reads no larger file to compare its lines: it counts as binary. */
const config: [string, string][] = [["core.bigFileThreshold", "64m"]];

/** Its paths are bytes. */
type Entry = ChangedFile & { ids: string[] };

const fileOf = ({ ids: _ids, path, old_path: old, ...file }: Entry): ChangedFile => ({
  ...file,
  path: pathText(path),
  old_path: old === null ? null : pathText(old),
});

/** The files that differ between two trees, with how many lines of each. Their sizes are not known yet. */
export const changedFiles = async (context: GitContext, gitDir: string, { from, to }: Between) => {
  const args = [...compare, "-z", "--raw", "--numstat", from, to];
  const { stdout } = await runGit(context, gitDir, args, { config, encoding: "latin1" });
  const files = new Map<string, Entry>();
  const fields = stdout.split("\0").values();
  const next = (): string => fields.next().value ?? "";
  // First a status for each file, then the lines of each: `:100644 100644 … M`, `3\t2\tpath`, each with its paths.
  for (let entry = next(); entry !== ""; entry = next()) {
    if (entry.startsWith(":")) {
      const [, , before = "", after = "", word = ""] = entry.split(" ");
      const [status, ids] = [statuses[word.charAt(0)] ?? "modified", [before, after]];
      const old_path = status === "renamed" ? next() : null;
      const path = next();
      const nothing = { insertions: 0, deletions: 0, binary: false, size: 0, left_out: false };
      files.set(path, { path, old_path, status, ...nothing, ids });
      continue;
    }
    const [added = "", deleted = "", ...rest] = entry.split("\t");
    const path = rest.join("\t") || (next(), next());
    const lines = { insertions: Number(added) || 0, deletions: Number(deleted) || 0, binary: added === "-" };
    Object.assign(files.get(path) ?? {}, lines);
  }
  return [...files.values()];
};

const withSizes = async (context: GitContext, gitDir: string, entries: readonly Entry[]) => {
  const all = entries.flatMap(({ ids }) => ids);
  const found = await objectsAt(context, gitDir, all);
  const sizeOf = (nth: number): number => found[nth]?.size ?? 0;
  return entries.map((entry, nth) => ({
    ...entry,
    size: Math.max(sizeOf(2 * nth), sizeOf(2 * nth + 1)),
  }));
};

/** Most bytes of arguments that tell git what to pass over. */
const mostPassedOver = 1_000_000;

/** Whether no part of the file can fit, so that git need not compress or print it. A moved one without a change can. */
const cannotFit = ({ size, binary, status, ids: [before, after] }: Entry, maxBytes: number): boolean =>
  size > maxBytes && before !== after && (binary || ["added", "deleted"].includes(status));

/** The patch of all files that fit; the others are marked. */
const patchBetween = async (
  context: GitContext,
  gitDir: string,
  { from, to, maxBytes, entries }: Between & DiffRequest & { entries: Entry[] },
) => {
  const passed: string[] = [];
  let bytes = 0;
  for (const entry of entries.filter((each) => cannotFit(each, maxBytes))) {
    const paths = [entry.path, entry.old_path ?? []].flat().map(pathBytes);
    bytes += paths.reduce((sum, path) => sum + path.length + 30, 0);
    // Arguments are text.
    if (bytes > mostPassedOver || !paths.every((path) => isUtf8(path))) continue;
    entry.left_out = true;
    passed.push(...paths.map((path) => `:(exclude,literal)${path.toString()}`));
  }
  const printed = entries.filter(({ left_out }) => !left_out);
  const reader = createPatchReader(printed, maxBytes);
  const options = ["--patch", "--binary", "--full-index"];
  const args = [...compare, ...options, from, to, "--", ...passed];
  await runGit(context, gitDir, args, { config, encoding: "latin1", onOutput: reader.read });
  return { latin1: reader.end(), truncated: entries.some(({ left_out }) => left_out) };
};

/** Names or statistics, cut at the end of a line. */
const textBetween = async (context: GitContext, gitDir: string, asked: Between & DiffRequest) => {
  const { from, to, format, maxBytes } = asked;
  const args = [...compare, format === "stat" ? "--stat" : "--name-only", from, to];
  const { stdout } = await runGit(context, gitDir, args, { config, encoding: "latin1" });
  const truncated = stdout.length > maxBytes;
  const cut = stdout.slice(0, stdout.lastIndexOf("\n", maxBytes) + 1);
  return { latin1: truncated ? cut : stdout, truncated };
};
