import { some } from "../lib/some.ts";
import { emptyTree } from "./clone.ts";
import { attempt } from "./failure.ts";
import { type GitContext, runGit, runGitOrNull } from "./git-context.ts";
import { indexOfTree } from "./git-index.ts";
import { listNewFiles, readObjects } from "./new-objects.ts";
import { pathBytes, pathList, shownPath } from "./path-bytes.ts";
import { RepoError, type Worktree } from "./repos.ts";

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
    const added = await listNewFiles(context, worktree, tip);
    const listing = ["ls-tree", "-r", "-z", "--full-tree", baseSha ?? emptyTree];
    const { stdout } = await runGit(context, ownDir, listing, { encoding: "latin1" });
    const found = stdout.matchAll(/(?:^|\0)100\d{3} blob (\w{40})\t([^\0]+)/g);
    const based = Array.from(found, ([, id, path]) => `${id} ${path}`);
    // What the base encrypts stays to be encrypted, also when the agent has changed .gitattributes.
    const filters = await filtersBy(context, worktree, trees, [...added, ...based]);
    // A path with a line break would be two objects.
    const isFiltered = (line: string): boolean => filters.has(line.slice(41)) && !line.includes("\n");
    const fresh = [...new Set(added).difference(new Set(based))].filter(isFiltered);
    const telling = based.filter((line) => isFiltered(line) && !isSilent.test(line));
    const byFilter = Map.groupBy(telling, (line) => filters.get(line.slice(41)));
    const old = [...byFilter.values()].flatMap((lines) => lines.slice(0, 100));
    const files = await readHeads(context, worktree, [...fresh, ...old], filters);
    const [heads, before] = [files.slice(0, fresh.length), files.slice(fresh.length)];
    const encrypts = (name: string): boolean => {
      const known = before.filter((file) => file.name === name);
      return cipherNames.test(name) || (known.length > 0 && known.every(({ head }) => !isText(head)));
    };
    const plain = heads.filter(({ name, head }) => encrypts(name) && isPlain(name, head));
    if (plain.length > 0) throw new RepoError("push_failed", notEncrypted(plain));
    const others = heads.filter(({ name }) => !encrypts(name));
    return others.length === 0 ? [] : [notFiltered(others)];
  });

const cipherNames = /^(git-?crypt|git-agecrypt|crypt|transcrypt)\b/;

/** Lines of files that do not tell whether a filter encrypts: those without a byte, and rules. */
const isSilent = /^e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 |[ /]\.gitattributes$/;

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

/** The filters of files by path, as `.gitattributes` in the trees say. Lines: an id, a space, a path in bytes. */
const filtersBy = async (context: GitContext, worktree: Worktree, trees: string[], lines: string[]) => {
  const filters = new Map<string, string>();
  const input = pathList(lines.flatMap((line) => line.slice(41) || []));
  for (const tree of trees) {
    const indexed = await indexOfTree(context, worktree, tree);
    const ask = ["check-attr", "-z", "--cached", "--stdin", "filter"];
    const { stdout } = await runGit(context, indexed, ask, { input, encoding: "latin1" });
    for (const [, path = "", name = ""] of stdout.matchAll(/([^\0]+)\0filter\0([^\0]*)\0/g))
      if (!["unspecified", "unset", "set", "lfs"].includes(name)) filters.set(path, name);
  }
  return filters;
};

/** The files of lines, with their filters and first bytes. */
const readHeads = async (
  context: GitContext,
  { ownDir }: Worktree,
  lines: readonly string[],
  filters: Map<string, string>,
): Promise<File[]> => {
  const heads: string[] = [];
  const read = (piece: string, _where: string, isFirst: boolean): void => {
    if (isFirst) heads.push("");
    const head = heads.at(-1) ?? "";
    if (head.length < 8000) heads[heads.length - 1] = head + piece;
  };
  const input = pathBytes(lines.map((line) => `${line}\n`).join(""));
  await readObjects(context, ownDir, { input, maxBytes: Infinity, read });
  return lines.map((line, nth) => {
    const path = line.slice(41);
    // A line break follows each object.
    return { path, name: filters.get(path) ?? "", head: (heads[nth] ?? "").replace(/\n$/, "") };
  });
};
