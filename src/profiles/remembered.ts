import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { FileFault } from "./contained.ts";

/** Milliseconds for which the files are taken to be as they were: asking then costs no look at the disk. */
const trustFor = 1000;

/**
 * Gives what `refresh` gave, and asks it again when that is a second old. `refresh` gets its last value (null: there is
 * none), to give it back when nothing has changed. A `FileFault` lasts a second too. `now` in milliseconds.
 */
export const remembered = <Value>(
  refresh: (previous: Value | null) => Promise<Value>,
  now: () => number,
): (() => Promise<Value>) => {
  let current: Promise<Value> | null = null;
  let checkedAt = -Infinity;
  return async () => {
    const at = now();
    // A clock that was set back must not make the answer last until it has caught up.
    const fresh = at - checkedAt < trustFor && at >= checkedAt;
    if (current === null || !fresh) {
      const before = current;
      checkedAt = at;
      const next = refreshAfter(before, refresh);
      current = next;
      // After another failure (a program error, say) the next call tries again instead of repeating it.
      next.catch((error: unknown) => {
        if (current === next && !(error instanceof FileFault)) current = null;
      });
    }
    return current;
  };
};

/** Those who ask meanwhile wait with it: a change that was seen is never followed by the state before it. */
const refreshAfter = async <Value>(
  before: Promise<Value> | null,
  refresh: (previous: Value | null) => Promise<Value>,
): Promise<Value> => refresh(before === null ? null : await before.catch(() => null));

/** More files than an agent may have: what lies beyond makes it unusable anyway. */
const maxEntries = 5000;

/**
 * A text that changes whenever one of the files does, or, to the given depth, a file in one of the directories: time of
 * change, size and inode, so that a write, a rename into place and a change of rights all alter it. Links are followed.
 */
export const marksOf = async (paths: readonly string[], depth = 0): Promise<string> => {
  const marks = await Promise.all(paths.map((path) => mark(path, depth, { left: maxEntries })));
  return marks.flat().join("\n");
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
