import { copyFile, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { withoutWaiting } from "../lib/without-waiting.ts";
import type { Snapshot, Worktree } from "./repos.ts";

/*
 * git takes a file for unchanged when length and time are those in the index, unless that time is not before the index's
 * own: such a file may have changed after it was added, in the same second. So a copy keeps the time of what it copies.
 */

/** False: there is nothing to copy. */
export const copyIndex = async ({ gitDir }: Pick<Worktree, "gitDir">, to: string): Promise<boolean> => {
  const from = join(gitDir, "index");
  const written = await timeOf(from);
  if (written === null) return false;
  await copyFile(from, to);
  await utimes(to, written, written);
  return true;
};

export const keepIndex = async ({ gitDir }: Pick<Worktree, "gitDir">): Promise<Snapshot["index"]> => {
  const file = join(gitDir, "index");
  const written = await timeOf(file);
  return written === null ? null : { bytes: await readFile(file, { flag: withoutWaiting.read }), written };
};

/** What it says of files that were written since is out of date, which git sees by itself. */
export const restoreIndex = async (
  { gitDir }: Pick<Worktree, "gitDir">,
  index: Snapshot["index"],
): Promise<void> => {
  const file = join(gitDir, "index");
  if (index === null) return rm(file, { force: true });
  const temporary = `${file}.service`;
  await rm(temporary, { force: true });
  await writeFile(temporary, index.bytes, { flag: "wx", mode: 0o644 });
  await utimes(temporary, index.written, index.written);
  await rename(temporary, file);
};

/** In whole seconds since 1970, which can only make git look closer. Null: no file. */
const timeOf = async (file: string): Promise<number | null> => {
  const found = await stat(file).catch(() => null);
  return found?.isFile() === true ? Math.floor(found.mtimeMs / 1000) : null;
};
