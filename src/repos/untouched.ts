import { rm } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../lib/remove-tree.ts";
import { runGit, unlessRefused, type GitContext } from "./git-context.ts";
import { pathBytes } from "./path-bytes.ts";
import { scratchOf, type Tree } from "./wall.ts";

/*
 * Git writes a file otherwise than its commit has it, and reads it back by the same rules: ends of lines, `ident`, encodings,
 * filters. Where that is no round trip, a file that nobody touched looks changed. Then its bytes decide.
 *
 * | the path differs from the commit, and          | its entry of the index                         |
 * |------------------------------------------------|------------------------------------------------|
 * | its bytes are those that a checkout writes     | the commit's, with the file's own mode         |
 * | Git LFS has it, and the commit has its pointer | that pointer: the file was moved or copied     |
 * | anything else                                  | what `git add` made of it                      |
 */

/** A path that differs. `mode`: the file's; `before`: the commit's blob; null: the path is new. Paths are bytes. */
type Changed = { path: string; mode: string; before: string | null };

type Adding = Tree & { index: string };

/** Puts the index right after all files were added to it. `headTree`: what is checked out. */
export const restoreUntouched = async (
  context: GitContext,
  adding: Adding,
  headTree: string,
): Promise<void> => {
  const changed = await changedIn(context, adding, headTree);
  const rules = await rulesOf(context, adding, changed);
  const inLfs = changed.filter(({ path }) => rules.get(path) === "lfs");
  const filtered = changed.filter(({ path, before }) => rules.get(path) === "other" && before !== null);
  const lines = [
    ...(await withPointers(context, adding, { files: inLfs, headTree })),
    ...(await asCheckedOut(context, adding, filtered)),
  ];
  await addLines(context, adding, lines);
};

/** Gives files in Git LFS, whose content is unchanged, the modes that they have. */
export const takeModes = async (context: GitContext, adding: Adding): Promise<void> => {
  const { stdout } = await runGit(context, adding, ["diff-files", "--raw", "-z"], { encoding: "latin1" });
  const found = stdout.matchAll(/:(100\d{3}) (100\d{3}) ([0-9a-f]{40}) \w+ M\0([^\0]+)\0/g);
  const lines = Array.from(found, ([, before, mode, id, path]) =>
    before === mode ? [] : [`${mode} ${id}\t${path}\0`],
  );
  await addLines(context, adding, lines.flat());
};

const addLines = async (context: GitContext, adding: Adding, lines: string[]): Promise<void> => {
  const input = pathBytes(lines.join(""));
  if (lines.length > 0) await runGit(context, adding, ["update-index", "-z", "--index-info"], { input });
};

/** `git hash-object` takes a path a line. */
const isNameable = (path: string): boolean => !/^"|\n/.test(path);

const changedIn = async (context: GitContext, adding: Adding, headTree: string): Promise<Changed[]> => {
  const args = ["diff-index", "--cached", "--raw", "--no-renames", "-z", headTree];
  const { stdout } = await runGit(context, adding, args, { encoding: "latin1" });
  const found = stdout.matchAll(/:(\d{6}) (100\d{3}) ([0-9a-f]{40}) \w+ ([AM])\0([^\0]+)\0/g);
  const all = Array.from(found, ([, old = "", mode = "", id = "", status, path = ""]) => {
    const before = status === "M" && old.startsWith("100") ? id : null;
    return { path, mode, before };
  });
  return all.filter(({ path }) => isNameable(path));
};

const attributes = ["text", "eol", "crlf", "ident", "working-tree-encoding", "filter"];

/** Which rules a path has: those of Git LFS, or others. */
const rulesOf = async (
  context: GitContext,
  adding: Adding,
  changed: readonly Changed[],
): Promise<Map<string, "lfs" | "other">> => {
  const rules = new Map<string, "lfs" | "other">();
  if (changed.length === 0) return rules;
  const input = pathBytes(changed.map(({ path }) => `${path}\0`).join(""));
  const args = ["check-attr", "-z", "--stdin", ...attributes];
  const { stdout } = await runGit(context, adding, args, { input, encoding: "latin1" });
  for (const [, path = "", name, value = ""] of stdout.matchAll(/([^\0]+)\0([^\0]+)\0([^\0]*)\0/g))
    if (name === "filter" && value === "lfs") rules.set(path, "lfs");
    else if (!["unspecified", "unset"].includes(value)) rules.set(path, "other");
  return rules;
};

/** Ids of files, as git would add them, or as they are. */
const hashed = async (
  context: GitContext,
  adding: Adding,
  paths: string[],
  { options = [], config = [] }: { options?: string[]; config?: [string, string][] },
): Promise<string[]> => {
  const input = pathBytes(paths.map((path) => `${path}\n`).join(""));
  const hashing = runGit(context, adding, ["hash-object", ...options, "--stdin-paths"], { input, config });
  return await unlessRefused(
    hashing.then(({ stdout }) => stdout.split("\n")),
    () => [],
  );
};

const withPointers = async (
  context: GitContext,
  adding: Adding,
  { files, headTree }: { files: readonly Changed[]; headTree: string },
): Promise<string[]> => {
  if (files.length === 0) return [];
  const { stdout } = await runGit(context, adding, ["ls-tree", "-r", "-z", headTree], { encoding: "latin1" });
  const known = new Set(stdout.split("\0").map((entry) => /^\d+ blob ([0-9a-f]{40})\t/.exec(entry)?.[1]));
  const config: [string, string][] = [
    ["filter.lfs.clean", "git-lfs clean -- %f"],
    // It is emptied with the other objects.
    ["lfs.storage", join(scratchOf(adding.ownDir), "objects", "lfs")],
  ];
  const paths = files.map(({ path }) => path);
  const ids = await hashed(context, adding, paths, { config });
  return files.flatMap(({ path, mode }, nth) =>
    known.has(ids[nth]) ? [`${mode} ${ids[nth]}\t${path}\0`] : [],
  );
};

const asCheckedOut = async (
  context: GitContext,
  adding: Adding,
  files: readonly Changed[],
): Promise<string[]> => {
  if (files.length === 0) return [];
  const place = join(scratchOf(adding.ownDir), "untouched");
  const index = `${place}.index`;
  const write = { ...adding, index };
  try {
    await removeTree(place);
    await rm(index, { force: true, recursive: true });
    const lines = files.map(({ path, before }) => `100644 ${before}\t${path}\0`);
    await addLines(context, write, lines);
    await runGit(context, write, ["checkout-index", "--all", `--prefix=${place}/`]);
    const paths = files.map(({ path }) => path);
    const bytes = { options: ["--no-filters"] };
    const [now, then] = [
      await hashed(context, adding, paths, bytes),
      await hashed(
        context,
        adding,
        paths.map((path) => `${Buffer.from(place).toString("latin1")}/${path}`),
        bytes,
      ),
    ];
    return files.flatMap(({ path, mode, before }, nth) =>
      now[nth] !== undefined && now[nth] === then[nth] ? [`${mode} ${before}\t${path}\0`] : [],
    );
  } finally {
    await removeTree(place);
    await rm(index, { force: true, recursive: true });
  }
};
