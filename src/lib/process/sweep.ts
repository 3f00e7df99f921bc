import { setTimeout as delay } from "node:timers/promises";
import { readRow, signalProcess, visitMarked, type Marker, type ProcessRow } from "./table.ts";

export type SweepReport = {
  /** Processes that were signalled. */
  swept: number;
  /** Those that are still alive: stuck in the kernel, another user's, or forking faster than they are killed. */
  survivors: Named[];
  /** Processes that may belong to the run, but cannot be inspected. */
  hidden: Named[];
};

type Named = Pick<ProcessRow, "pid" | "name">;

/** `limit`: the sweep reports what is left. `patience`: see `end`. */
const milliseconds = { betweenScans: 15, fromTermToKill: 200, patience: 1000, limit: 10_000 };

/**
 * Ends every process that carries the marker, exactly `NAME=VALUE` in its environment, whatever its group or parent, and the
 * `known` ones, which may lack it: TERM, KILL after 200 ms, until two scans in a row find nothing.
 */
export const sweep = async (marker: Marker, known: readonly ProcessRow[] = []): Promise<SweepReport> => {
  const startedAt = performance.now();
  const termSent = new Map<string, number>();
  let alive: number[] = [];
  let hidden: Named[] = [];

  const end = (row: ProcessRow): void => {
    const now = performance.now();
    const key = `${row.pid} ${row.startTime}`;
    const since = termSent.get(key);
    if (since === undefined) termSent.set(key, now);
    alive.push(row.pid);
    // After a second, new processes get no TERM: a program that restarts itself would never end.
    const kill =
      (since !== undefined && now - since >= milliseconds.fromTermToKill) ||
      now - startedAt > milliseconds.patience;
    if (kill) signalProcess(row.pid, "SIGKILL");
    else if (since === undefined) signalProcess(row.pid, "SIGTERM");
  };

  for (let quiet = 0; quiet < 2;) {
    alive = [];
    const unseen = await visitMarked(marker, end);
    for (const row of known) if (readRow(row.pid)?.startTime === row.startTime) end(row);
    quiet = alive.length + unseen.length === 0 ? quiet + 1 : 0;
    if (quiet === 0 && performance.now() - startedAt > milliseconds.limit) {
      hidden = unseen.map(named);
      break;
    }
    if (quiet < 2) await delay(milliseconds.betweenScans);
  }
  return { swept: termSent.size, survivors: [...new Set(alive)].map(named), hidden };
};

/** Warnings for the user about processes that may be left. */
export const leftWarnings = ({ survivors, hidden }: SweepReport): string[] => {
  const warnings: string[] = [];
  if (survivors.length > 0)
    warnings.push(`Processes of the run could not be ended: ${list(survivors)}. End them by hand.`);
  if (hidden.length > 0) {
    warnings.push(
      `Processes that started during the run could not be inspected and may belong to it: ${list(hidden)}. End them by hand unless they belong to others.`,
    );
  }
  return warnings;
};

const named = (pid: number): Named => ({ pid, name: readRow(pid)?.name ?? "ended" });

const list = (processes: Named[]): string =>
  processes
    .slice(0, 20)
    .map(({ pid, name }) => `${pid} (${name})`)
    .join(", ");
