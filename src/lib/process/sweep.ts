import { setTimeout as delay } from "node:timers/promises";
import { createDaemonLook, type Workplace } from "./daemon.ts";
import { readRow, signalProcess, visitMarked, type Marker, type ProcessRow } from "./table.ts";

export type SweepReport = {
  /** Processes that were signalled. */
  swept: number;
  /** Pids of those that are alive even so (stuck in the kernel, or forking faster than we kill). */
  survivors: number[];
  /** Processes that may belong to it, but cannot be looked into. */
  hidden: Pick<ProcessRow, "pid" | "name">[];
};

export type SweepOptions = {
  /** Ends the wait; the sweep then rejects with its reason. */
  signal?: AbortSignal;
  /** Processes that belong to the run although their environment may not say so. */
  known?: readonly ProcessRow[];
  /** Daemons that the run has left there are ended as well; what started before the run is then left out. */
  workplace?: Workplace | undefined;
  /** Seconds after which what is left is reported instead of waited for. */
  limitSeconds?: number;
};

const milliseconds = { betweenLooks: 15, fromTermToKill: 200, patience: 1000 };

/**
 * Ends every process that carries the marker, wherever it has hidden (own group, own session, reparented): TERM, KILL
 * after 200 ms, again until two looks in a row find nothing. Only processes whose environment has exactly
 * `NAME=VALUE`, the `known` ones, and daemons in the `workplace` are touched.
 */
export const sweep = async (marker: Marker, options: SweepOptions = {}): Promise<SweepReport> => {
  const { signal, known = [], workplace, limitSeconds = 10 } = options;
  const whose = workplace && (await createDaemonLook(workplace));
  const began = performance.now();
  const termSent = new Map<string, number>();
  let alive: number[] = [];
  let hidden: SweepReport["hidden"] = [];

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

  const visitOther = (row: ProcessRow, environment: Buffer | null): void => {
    const found = whose?.(row, environment);
    if (found === "left") end(row);
    else if (found === "hidden") hidden.push({ pid: row.pid, name: row.name });
  };

  for (let quiet = 0; quiet < 2;) {
    signal?.throwIfAborted();
    alive = [];
    hidden = [];
    const unseen = await visitMarked(marker, end, workplace?.since, visitOther);
    known.filter(isStillThere).forEach(end);
    quiet = alive.length + unseen.length === 0 ? quiet + 1 : 0;
    if (quiet === 0 && performance.now() - began > limitSeconds * 1000) {
      hidden.push(...unseen.map(named));
      break;
    }
    if (quiet < 2) await delay(milliseconds.betweenLooks, undefined, { signal });
  }
  return { swept: termSent.size, survivors: [...new Set(alive)], hidden };
};

/** What a user is told of processes that may be left; nothing when none is. */
export const leftWarnings = ({ survivors, hidden }: SweepReport): string[] => {
  const warnings: string[] = [];
  if (survivors.length > 0)
    warnings.push(`Processes of the run could not be ended: ${survivors.join(", ")}. End them by hand.`);
  if (hidden.length > 0) {
    const names = hidden.slice(0, 20).map(({ pid, name }) => `${pid} (${name})`);
    warnings.push(
      `Processes that started during the run could not be looked into and may be left from it: ${names.join(", ")}. End them by hand unless they are somebody else's.`,
    );
  }
  return warnings;
};

const named = (pid: number): Pick<ProcessRow, "pid" | "name"> => ({
  pid,
  name: readRow(pid)?.name ?? "gone by now",
});

const isStillThere = ({ pid, startTime }: ProcessRow): boolean => readRow(pid)?.startTime === startTime;
