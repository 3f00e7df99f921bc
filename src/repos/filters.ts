import { join } from "node:path";
import { some } from "../lib/some.ts";
import { emptyTree } from "./clone.ts";
import { attempt } from "./failure.ts";
import { type GitContext, runGit, runGitOrNull } from "./git-context.ts";
import { listNewObjects, readObjects } from "./new-objects.ts";
import { pathBytes, pathList, shownPath } from "./path-bytes.ts";
import { RepoError, type Worktree } from "./repos.ts";
import { scratchOf } from "./wall.ts";

/*
 * A filter that `.gitattributes` names changes files on their way into the repository: it encrypts, or leaves things out. None
 * runs here, because the repository would choose the program.
 *
 * | the filter                                                                  | new content under it         |
 * |-----------------------------------------------------------------------------|------------------------------|
 * | is `lfs`                                                                    | goes out: see `lfs.ts`       |
 * | encrypts: by its name, or because its files in the base are no text         | is refused when it is plain  |
 * | is any other                                                                | goes out with a warning      |
 */

/** Names of the filters in the text of a `.gitattributes` file. */
export const filtersIn = (text: string): string[] =>
  Array.from(text.matchAll(/(?<![-!\w])filter=(\S+)/g), ([, name = ""]) => name);

/** Looks for what a push would bring unfiltered. Resolves to warnings. @throws RepoError where it must be encrypted */
export const checkFilters = (context: GitContext, worktree: Worktree, tip: string): Promise<string[]> =>
  attempt(context, "push_failed", "look for files that a filter must change", async () => {
    const { baseSha, ownDir } = worktree;
    const trees = [tip, baseSha ?? []].flat();
    const options = "-h -o -E filter=[^[:space:]]+".split(" ");
    const grep = ["grep", ...options, ...trees, "--", ":(glob)**/.gitattributes"];
    const declared = filtersIn((await runGitOrNull(context, ownDir, grep))?.stdout ?? "");
    if (declared.every((name) => name === "lfs")) return [];
    const added = (await listNewObjects(context, worktree, { tip, only: "blob" })).split("\n");
    const format = "--format=%(objecttype) %(objectname) %(path)";
    const listing = ["ls-tree", "-r", "-z", "--full-tree", format, baseSha ?? emptyTree];
    const { stdout } = await runGit(context, ownDir, listing, { encoding: "latin1" });
    const based = stdout.split("\0").flatMap((line) => (line.startsWith("blob ") ? [line.slice(5)] : []));
    // What the base encrypts stays to be encrypted, also when the agent has changed .gitattributes.
    const filters = new Map<string, string>();
    for (const tree of trees)
      await noteFilters(context, worktree, { tree, lines: [...added, ...based], filters });
    const heads = await readHeads(context, worktree, { lines: added, filters });
    const before = await readHeads(context, worktree, { lines: based, filters, most: 100 });
    const encrypts = (name: string): boolean => {
      const files = before.filter((file) => file.name === name);
      return cipherNames.test(name) || (files.length > 0 && files.every(({ head }) => !isText(head)));
    };
    const plain = heads.filter(({ name, head }) => encrypts(name) && isPlain(name, head));
    if (plain.length > 0) throw new RepoError("push_failed", notEncrypted(plain));
    const others = heads.filter(({ name }) => !encrypts(name));
    return others.length === 0 ? [] : [notFiltered(others)];
  });

const cipherNames = /^(git-?crypt|git-agecrypt|crypt|transcrypt)\b/;

/** git's own rule. */
const isText = (head: string): boolean => !head.includes("\0");

const isPlain = (name: string, head: string): boolean =>
  head !== "" &&
  !/^(\0GITCRYPT|U2FsdGVkX1|age-encryption)/.test(head) &&
  (isText(head) || name.startsWith("git-crypt"));

type File = { path: string; name: string; head: string };

const notEncrypted = (files: readonly File[]): string =>
  `Nothing was pushed, because the repository encrypts files that are plain text in the job's commits, and its filter does not run here: ${named(files)}.\nWhat to do: Have the branch rewritten without them (svc continue JOB "…"), and encrypt them in a checkout of yours.`;

const notFiltered = (files: readonly File[]): string =>
  `A filter of .gitattributes did not run on files of this change, which are committed as they are: ${named(files)}.`;

const named = (files: readonly File[]): string =>
  some(files.map(({ path, name }) => `${shownPath(path)} (filter ${shownPath(name)})`));

type Lines = { lines: readonly string[]; filters: Map<string, string> };

/** Adds the filters of files by path, as `.gitattributes` in a tree say. Lines: an id, a space, a path in bytes. */
const noteFilters = async (
  context: GitContext,
  worktree: Worktree,
  { tree, lines, filters }: Lines & { tree: string },
): Promise<void> => {
  const indexed = { ...worktree, index: join(scratchOf(worktree.ownDir), "attributes.index") };
  await runGit(context, indexed, ["read-tree", tree]);
  const input = pathList(lines.flatMap((line) => (line.length > 41 ? [line.slice(41)] : [])));
  const ask = ["check-attr", "-z", "--cached", "--stdin", "filter"];
  const { stdout } = await runGit(context, indexed, ask, { input, encoding: "latin1" });
  for (const [, path = "", name = ""] of stdout.matchAll(/([^\0]+)\0filter\0([^\0]*)\0/g))
    if (!["unspecified", "unset", "set", "lfs"].includes(name)) filters.set(path, name);
};

/** The first bytes of the files that have a filter. */
const readHeads = async (
  context: GitContext,
  { ownDir }: Worktree,
  { lines, filters, most = Infinity }: Lines & { most?: number },
): Promise<File[]> => {
  // A path with a line break would be two objects.
  const isFiltered = (line: string): boolean => filters.has(line.slice(41)) && !line.includes("\n");
  const filtered = lines.filter(isFiltered).slice(0, most);
  const files = filtered.map((line) => ({
    path: line.slice(41),
    name: filters.get(line.slice(41)) ?? "",
    head: "",
  }));
  let [at, last]: [number, File | undefined] = [0, undefined];
  const read = (piece: string, _where: string, isFirst: boolean): void => {
    if (isFirst) last = files[at++];
    if (last !== undefined && last.head.length < 8000) last.head += piece;
  };
  const input = pathBytes(filtered.map((line) => `${line}\n`).join(""));
  await readObjects(context, ownDir, { input, maxBytes: Infinity, read });
  // A line break follows each object.
  return files.map((file) => ({ ...file, head: file.head.replace(/\n$/, "") }));
};
