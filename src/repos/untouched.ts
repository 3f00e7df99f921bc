import { rm } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../lib/remove-tree.ts";
import { runGit, unlessRefused, type GitContext } from "./git-context.ts";
import { indexOfTree, stageEntries } from "./git-index.ts";
import { pointersFor } from "./lfs.ts";
import { pathBytes, pathList } from "./path-bytes.ts";
import { scratchOf, type Tree } from "./wall.ts";

/** A path that differs from the commit, and the file's mode. `before`: the commit's blob; undefined: the path is new. Paths are bytes. */
type Changed = { path: string; mode: string; id: string; before: string | undefined };

type Adding = Tree & { index: string };

/** `staged`: entries of the agent's index. `large`: files that were not added. */
type Beside = Record<"headTree" | "base", string> & Record<"staged" | "large", readonly string[]>;

/**
 * Puts the index right after all files were added to it: git's rules for ends of lines, `ident`, encodings and filters are no
 * round trip, so that a file that nobody touched may look changed.
 *
 * | the path differs from the commit, and          | its entry of the index                     |
 * |------------------------------------------------|--------------------------------------------|
 * | the agent staged it by rules newer than `base` | as `git add` made it                       |
 * | its bytes are those that a checkout writes     | the commit's, with the file's own mode     |
 * | Git LFS has it, and the commit has its pointer | that pointer: the file was moved or copied |
 * | anything else                                  | as `git add` made it                       |
 *
 * `restored`: paths with the commit's entry; `pointed`: with a pointer, which may be `large`.
 */
export const restoreUntouched = async (
  context: GitContext,
  adding: Adding,
  { headTree, base, staged, large }: Beside,
): Promise<{ restored: string[]; pointed: Map<string, string> }> => {
  const args = ["diff-index", "--cached", "--raw", "--no-renames", "-z", headTree];
  const { stdout } = await runGit(context, adding, args, { encoding: "latin1" });
  const found = stdout.matchAll(/:(\d{6}) (100\d{3}) ([0-9a-f]{40}) (\w+) [AM]\0(?!")([^\0\n]+)\0/g);
  const changed = Array.from(found, ([, old = "", mode = "", before, id = "", path = ""]): Changed => {
    return { path, mode, id, before: old.startsWith("100") ? before : undefined };
  });
  const paths = [...changed.map(({ path }) => path), ...large];
  const rules = await rulesOf(context, adding, paths);
  const isInLfs = (path: string) => rules.get(path)?.includes(" filter=lfs ") === true;
  const pointed = await pointersFor(context, adding, { paths: paths.filter(isInLfs), commit: headTree });
  await stageEntries(context, adding, [...pointed.values()]);
  const others = changed.filter(({ path, before }) => rules.has(path) && !isInLfs(path) && before);
  const entries = new Set(staged);
  const isStaged = ({ path, mode, id }: Changed) => entries.has(`${mode} ${id}\t${path}`);
  const asked = others.filter(isStaged).map(({ path }) => path);
  const before = await rulesOf(context, adding, asked, base);
  const isByOldRules = ({ path }: Changed) => rules.get(path) === before.get(path);
  const files = others.filter((file) => !isStaged(file) || isByOldRules(file));
  return { restored: await asCheckedOut(context, adding, files), pointed };
};

/** Gives files in Git LFS, whose content is unchanged, the modes that they have. */
export const takeModes = async (context: GitContext, adding: Adding): Promise<void> => {
  const { stdout } = await runGit(context, adding, ["diff-files", "--raw", "-z"], { encoding: "latin1" });
  const changed = stdout.matchAll(/:(100\d{3}) (?!\1)(100\d{3}) ([0-9a-f]{40}) \w+ M\0([^\0]+)\0/g);
  const entries = Array.from(changed, ([, , mode, id, path]) => `${mode} ${id}\t${path}`);
  await stageEntries(context, adding, entries);
};

/** Rules of paths, as one text each; of those without none. `tree`: whose rules, if not those of the files. */
const rulesOf = async (context: GitContext, adding: Adding, paths: readonly string[], tree?: string) => {
  const rules = new Map<string, string>();
  if (paths.length === 0) return rules;
  const place = tree === undefined ? adding : await indexOfTree(context, adding, tree);
  const names = "text eol crlf ident working-tree-encoding filter".split(" ");
  const args = ["check-attr", "-z", ...(tree === undefined ? [] : ["--cached"]), "--stdin", ...names];
  const asked = { input: pathList(paths), encoding: "latin1" } as const;
  const { stdout } = await runGit(context, place, args, asked);
  for (const [, path = "", name, value = ""] of stdout.matchAll(/([^\0]+)\0([^\0]+)\0([^\0]*)\0/g))
    if (!["unspecified", "unset"].includes(value))
      rules.set(path, `${rules.get(path) ?? ""} ${name}=${value} `);
  return rules;
};

/** Gives the index the commit's entries of those that are as a checkout writes them. Resolves to their paths. */
export const asCheckedOut = async (context: GitContext, adding: Adding, files: Changed[]) => {
  if (files.length === 0) return [];
  const place = join(scratchOf(adding.ownDir), "untouched");
  const write = { ...adding, index: `${place}.index` };
  await removeTree(place);
  await rm(write.index, { force: true, recursive: true });
  const entries = files.map(({ path, before }) => `100644 ${before}\t${path}`);
  await stageEntries(context, write, entries);
  await runGit(context, write, ["checkout-index", "--all", `--prefix=${place}/`]);
  const then = files.map(({ path }) => `${Buffer.from(place).toString("latin1")}/${path}`);
  const input = pathBytes([...files.map(({ path }) => path), ...then, ""].join("\n"));
  const hashing = runGit(context, adding, ["hash-object", "--no-filters", "--stdin-paths"], { input });
  const ids = await unlessRefused(
    hashing.then(({ stdout }) => stdout.split("\n")),
    () => [],
  );
  await removeTree(place);
  const same = files.filter((_, nth) => ids[nth] !== undefined && ids[nth] === ids[nth + files.length]);
  const restored = same.map(({ path, mode, before }) => `${mode} ${before}\t${path}`);
  await stageEntries(context, adding, restored);
  return same.map(({ path }) => path);
};
