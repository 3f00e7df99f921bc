import { setTimeout as delay } from "node:timers/promises";
import { readRow, signalProcess, visitMarked, type Marker, type ProcessRow } from "./table.ts";

export type SweepReport = {
  /** Processes that were signalled. */
  swept: number;
  /** Pids of those that are alive even so (stuck in the kernel, or forking faster than we kill). */
  survivors: number[];
};

export type SweepOptions = {
  /** Ends the wait; the sweep then rejects with its reason. */
  signal?: AbortSignal;
  /** Processes that belong to the run although their environment may not say so. */
  known?: readonly ProcessRow[];
  /** Seconds after which what is left is reported instead of waited for. */
  limitSeconds?: number;
};

const milliseconds = { betweenLooks: 15, fromTermToKill: 200, patience: 1000 };

/**
 * Ends every process that carries the marker, wherever it has hidden (own group, own session, reparented): TERM, KILL
 * after 200 ms, again until two looks in a row find nothing. Only processes whose environment has exactly
 * `NAME=VALUE`, and the `known` ones, are touched.
 */
export const sweep = async (marker: Marker, options: SweepOptions = {}): Promise<SweepReport> => {
  const { signal, known = [], limitSeconds = 10 } = options;
  const began = performance.now();
  const termSent = new Map<string, number>();
  let alive: number[] = [];

  const end = (row: ProcessRow): void => {
    const now = performance.now();
    const key = `${row.pid} ${row.startTime}`;
    const since = termSent.get(key);
    if (since === undefined) termSent.set(key, now);
    alive.push(row.pid);
    // Past the patience newcomers get no time of their own: a program that respawns would never be done.
    const kill =
      (since !== undefined && now - since >= milliseconds.fromTermToKill) ||
      now - began > milliseconds.patience;
    if (kill) signalProcess(row.pid, "SIGKILL");
    else if (since === undefined) signalProcess(row.pid, "SIGTERM");
  };

  for (let quiet = 0; quiet < 2;) {
    signal?.throwIfAborted();
    alive = [];
    await visitMarked(marker, end);
    for (const row of known) if (readRow(row.pid)?.startTime === row.startTime) end(row);
    // One look may miss a process that is just changing its program: for a moment it shows no environment.
    quiet = alive.length === 0 ? quiet + 1 : 0;
    if (alive.length > 0 && performance.now() - began > limitSeconds * 1000) break;
    if (quiet < 2) await delay(milliseconds.betweenLooks, undefined, { signal });
  }
  return { swept: termSent.size, survivors: [...new Set(alive)] };
};
