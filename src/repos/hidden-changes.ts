import { lstat } from "node:fs/promises";
import { GitError } from "../lib/git.ts";
import { readIndexFlags } from "./index-flags.ts";
import { runGit, type Room } from "./room.ts";
import { pathBytes } from "./tree.ts";

type Uncover = {
  /** The working tree. */
  root: string;
  /** A copy of the worktree's index; the variables name it. */
  index: string;
  variables: Record<string, string>;
  signal: AbortSignal;
};

/**
 * Makes git look at every file again, also those that an agent told it to take for unchanged. A file that is not checked
 * out (a link that was left out, a sparse checkout) counts only when there is something in its place: that is work.
 */
export const uncover = async (room: Room, { root, index, variables, signal }: Uncover): Promise<void> => {
  const call = { variables, signal };
  const flags =
    (await readIndexFlags(index)) ??
    (await rewrite(room, { root, ...call }).then(() => readIndexFlags(index), unlessAborted(signal)));
  if (flags === null) return;
  const mark = async (flag: string, paths: string[]): Promise<void> => {
    if (paths.length === 0) return;
    const input = Buffer.concat(paths.map((path) => pathBytes(`${path}\0`)));
    await runGit(room, ["update-index", flag, "-z", "--stdin"], { ...call, input });
  };
  await mark("--no-assume-unchanged", flags.assumed);
  await mark("--no-skip-worktree", await present(root, flags.skipped));
};

/**
 * Into the form that we can read. In the working tree itself, where git sees which files it must look at more closely
 * from then on.
 */
const rewrite = (
  room: Room,
  { root, variables, signal }: Omit<Uncover, "index">,
): Promise<{ stdout: string }> =>
  runGit(room, ["update-index", "--no-split-index", "--index-version", "2"], {
    cwd: root,
    variables,
    signal,
  });

/** Those of the paths at which there is something. */
export const present = async (root: string, paths: string[]): Promise<string[]> => {
  const found: string[] = [];
  for (let at = 0; at < paths.length; at += 64) {
    const some = paths.slice(at, at + 64);
    const stats = await Promise.all(
      some.map((path) =>
        // One that ends with a slash stands for a whole directory of a sparse checkout.
        lstat(Buffer.concat([Buffer.from(`${root}/`), pathBytes(path.replace(/\/$/, ""))])).catch(() => null),
      ),
    );
    found.push(...some.filter((path, nth) => stats[nth] !== null && !path.endsWith("/")));
  }
  return found;
};

/** An index that git cannot read is seen to by whoever adds to it. */
const unlessAborted =
  (signal: AbortSignal) =>
  (error: unknown): null => {
    if (signal.aborted || !(error instanceof GitError)) throw error;
    return null;
  };
