import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";

/** Something whose change must be noticed; `deep`: with all that lies in it. */
export type Watched = { path: string; deep: boolean };

/** More files than an agent may have: what lies beyond makes it unusable anyway. */
const maxEntries = 5000;
const maxDepth = 16;

/**
 * One line for each file: time of change, size and inode, so that a write, a rename into place and a change of rights all
 * alter it. Links are followed.
 */
export const marksOf = async (watched: readonly Watched[]): Promise<string[]> => {
  const marks = await Promise.all(
    watched.map(({ path, deep }) => mark(path, deep ? maxDepth : 0, { left: maxEntries })),
  );
  return marks.flat();
};

const mark = async (path: string, depth: number, budget: { left: number }): Promise<string[]> => {
  budget.left -= 1;
  const status = await stat(path, { bigint: true }).catch(() => null);
  if (status === null) return [`${path} -`];
  const own = `${path} ${status.ctimeNs} ${status.size} ${status.ino}`;
  if (depth === 0 || !status.isDirectory()) return [own];
  const entries: string[] = await readdir(path).catch(() => []);
  const looked = entries.toSorted().slice(0, Math.max(0, budget.left));
  const below = await Promise.all(looked.map((entry) => mark(join(path, entry), depth - 1, budget)));
  return [own, ...below.flat()];
};
