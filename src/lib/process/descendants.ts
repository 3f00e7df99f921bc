import { listProcesses, readRow, withDescendants, type ProcessRow } from "./table.ts";

/** Interval at which new processes are looked at while runs last, ms. */
const lookEvery = 250;

/** What a run has started so far, by its leader. */
const runs = new Map<number, ProcessRow[]>();
let listed = new Set<number>();
let timer: NodeJS.Timeout | undefined;

/**
 * Notes what descends from a process while it runs: a process that leaves group, session and parent, and drops its
 * environment, can be known afterwards only if it was seen before. `end` looks once more and returns those seen.
 */
export const followDescendants = (leader: ProcessRow): { end: () => ProcessRow[] } => {
  runs.set(leader.pid, [leader]);
  timer ??= setInterval(look, lookEvery).unref();
  return {
    end: () => {
      look();
      const seen = runs.get(leader.pid) ?? [];
      runs.delete(leader.pid);
      if (runs.size === 0) {
        clearInterval(timer);
        timer = undefined;
        listed = new Set();
      }
      return seen;
    },
  };
};

/** Reads only processes that are new since the last look. */
const look = (): void => {
  const now = new Set(listProcesses());
  const rows = [...now.difference(listed)].map(readRow).filter((row) => row !== null);
  listed = now;
  for (const [leader, seen] of runs) {
    const living = seen.filter(({ pid }) => pid === leader || now.has(pid));
    runs.set(leader, withDescendants(rows, living));
  }
};
