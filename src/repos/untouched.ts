import { rm } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../lib/remove-tree.ts";
import { runGit, unlessRefused, type GitContext } from "./git-context.ts";
import { stageEntries } from "./git-index.ts";
import { pathBytes, pathList } from "./path-bytes.ts";
import { scratchOf, type Tree } from "./wall.ts";

/** A path that differs from the commit, and the file's mode. `before`: the commit's blob; undefined: the path is new. Paths are bytes. */
type Changed = { path: string; mode: string; before: string | undefined };

type Adding = Tree & { index: string };

/**
 * Puts the index right after all files were added to it: git's rules for ends of lines, `ident`, encodings and filters are no
 * round trip, so that a file that nobody touched may look changed.
 *
 * | the path differs from the commit, and          | its entry of the index                     |
 * |------------------------------------------------|--------------------------------------------|
 * | its bytes are those that a checkout writes     | the commit's, with the file's own mode     |
 * | Git LFS has it, and the commit has its pointer | that pointer: the file was moved or copied |
 * | anything else                                  | as `git add` made it                       |
 */
export const restoreUntouched = async (context: GitContext, adding: Adding, headTree: string) => {
  const args = ["diff-index", "--cached", "--raw", "--no-renames", "-z", headTree];
  const { stdout } = await runGit(context, adding, args, { encoding: "latin1" });
  const found = stdout.matchAll(/:(\d{6}) (100\d{3}) ([0-9a-f]{40}) \w+ ([AM])\0(?!")([^\0\n]+)\0/g);
  const changed = Array.from(found, ([, old = "", mode = "", id, , path = ""]): Changed => {
    return { path, mode, before: old.startsWith("100") ? id : undefined };
  });
  const isInLfs = await areInLfs(context, adding, changed);
  const files = changed.filter(({ path }) => isInLfs.get(path) === true);
  await withPointers(context, adding, { files, headTree });
  const isOther = ({ path, before }: Changed) => isInLfs.get(path) === false && before !== undefined;
  await asCheckedOut(context, adding, changed.filter(isOther));
};

/** Gives files in Git LFS, whose content is unchanged, the modes that they have. */
export const takeModes = async (context: GitContext, adding: Adding): Promise<void> => {
  const { stdout } = await runGit(context, adding, ["diff-files", "--raw", "-z"], { encoding: "latin1" });
  const changed = stdout.matchAll(/:(100\d{3}) (?!\1)(100\d{3}) ([0-9a-f]{40}) \w+ M\0([^\0]+)\0/g);
  const entries = Array.from(changed, ([, , mode, id, path]) => `${mode} ${id}\t${path}`);
  await stageEntries(context, adding, entries);
};

/** By path, of those that have rules: whether these are of Git LFS. */
const areInLfs = async (context: GitContext, adding: Adding, changed: Changed[]) => {
  const rules = new Map<string, boolean>();
  const input = pathList(changed.map(({ path }) => path));
  const args = "check-attr -z --stdin text eol crlf ident working-tree-encoding filter".split(" ");
  const asked = { input, encoding: "latin1" } as const;
  const { stdout } = changed.length === 0 ? { stdout: "" } : await runGit(context, adding, args, asked);
  for (const [, path = "", name, value = ""] of stdout.matchAll(/([^\0]+)\0([^\0]+)\0([^\0]*)\0/g))
    if (!["unspecified", "unset"].includes(value)) rules.set(path, name === "filter" && value === "lfs");
  return rules;
};

/** Ids of files, as git would add them. None when git refuses. */
const hashed = (
  context: GitContext,
  adding: Adding,
  paths: string[],
  { options = [], config = [] }: { options?: string[]; config?: [string, string][] },
): Promise<string[]> => {
  const input = pathBytes(paths.map((path) => `${path}\n`).join(""));
  const hashing = runGit(context, adding, ["hash-object", ...options, "--stdin-paths"], { input, config });
  const ids = hashing.then(({ stdout }) => stdout.split("\n"));
  return unlessRefused(ids, () => []);
};

const withPointers = async (
  context: GitContext,
  adding: Adding,
  { files, headTree }: { files: readonly Changed[]; headTree: string },
): Promise<void> => {
  if (files.length === 0) return;
  const { stdout } = await runGit(context, adding, ["ls-tree", "-r", headTree]);
  const known = new Set(Array.from(stdout.matchAll(/^\d+ blob ([0-9a-f]{40})\t/gm), ([, id]) => id));
  const config: [string, string][] = [
    ["filter.lfs.clean", "git-lfs clean -- %f"],
    // It is emptied with the other objects.
    ["lfs.storage", join(scratchOf(adding.ownDir), "objects", "lfs")],
  ];
  const paths = files.map(({ path }) => path);
  const ids = await hashed(context, adding, paths, { config });
  const same = files.map(({ path, mode }, nth) =>
    known.has(ids[nth]) ? `${mode} ${ids[nth]}\t${path}` : "",
  );
  await stageEntries(context, adding, same.filter(Boolean));
};

const asCheckedOut = async (context: GitContext, adding: Adding, files: Changed[]): Promise<void> => {
  if (files.length === 0) return;
  const place = join(scratchOf(adding.ownDir), "untouched");
  const write = { ...adding, index: `${place}.index` };
  await removeTree(place);
  await rm(write.index, { force: true, recursive: true });
  const entries = files.map(({ path, before }) => `100644 ${before}\t${path}`);
  await stageEntries(context, write, entries);
  await runGit(context, write, ["checkout-index", "--all", `--prefix=${place}/`]);
  const then = files.map(({ path }) => `${Buffer.from(place).toString("latin1")}/${path}`);
  const paths = [...files.map(({ path }) => path), ...then];
  const ids = await hashed(context, adding, paths, { options: ["--no-filters"] });
  await removeTree(place);
  const same = files.map(({ path, mode, before }, nth) =>
    ids[nth] !== undefined && ids[nth] === ids[nth + files.length] ? `${mode} ${before}\t${path}` : "",
  );
  await stageEntries(context, adding, same.filter(Boolean));
};
