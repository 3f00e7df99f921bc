import { execFile } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { instanceVariable, serviceTitle } from "./marker.ts";
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

export type SweepOptions = {
  /** Processes of the run whose environment may lack the marker. */
  known?: readonly ProcessRow[];
  /** Daemons of the run there are ended, too; processes that started before the run are left alone then. */
  workplace?: Workplace | undefined;
};

/** `limit`: the sweep reports what is left. `patience`: see `end`. */
const milliseconds = { betweenScans: 15, fromTermToKill: 200, patience: 1000, limit: 10_000 };

/**
 * Ends every process that carries the marker, whatever its group, session or parent: TERM, KILL after 200 ms, until two scans
 * in a row find nothing. Only processes whose environment has exactly `NAME=VALUE`, the `known` ones, and daemons in the
 * `workplace` are ended.
 */
export const sweep = async (marker: Marker, options: SweepOptions = {}): Promise<SweepReport> => {
  const { known = [], workplace } = options;
  const checkDaemon = workplace && (await createDaemonCheck(workplace));
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

  const visitOther = (row: ProcessRow, environment: Buffer | null): void => {
    const found = checkDaemon?.(row, environment);
    if (found === "daemon") end(row);
    else if (found === "hidden") hidden.push({ pid: row.pid, name: row.name });
  };

  for (let quiet = 0; quiet < 2;) {
    alive = [];
    hidden = [];
    const unseen = await visitMarked(marker, end, workplace?.since, visitOther);
    known.filter(isAlive).forEach(end);
    quiet = alive.length + unseen.length === 0 ? quiet + 1 : 0;
    if (quiet === 0 && performance.now() - startedAt > milliseconds.limit) {
      hidden.push(...unseen.map(named));
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

const isAlive = ({ pid, startTime }: ProcessRow): boolean => readRow(pid)?.startTime === startTime;

/** The directories of a run, and when it started. */
type Workplace = {
  /** When its first process started; see `ProcessRow`. */
  since: string;
  /** The worktree and the cached clone: absolute paths without links. */
  directories: readonly string[];
};

/**
 * Whether a process without the marker is a daemon of the run: its working directory, program or an open file is in the run's
 * directories. A user's shell or editor must not count, nor processes of the service and of other jobs. So a daemon is an
 * orphan that started after the run, with the service's user and control group, without a terminal and without any marker.
 * "hidden": all that is true, but the kernel does not show its files, as for ssh-agent, which protects its secrets from other
 * processes of the same user.
 */
const createDaemonCheck = async ({ since, directories }: Workplace) => {
  const parentOfOrphans = await (adopter ??= findAdopter());
  const group = controlGroup("self");
  const isInside = (path: string): boolean =>
    directories.some((directory) => `${path.replace(/ \(deleted\)$/, "")}/`.startsWith(`${directory}/`));

  return (row: ProcessRow, environment: Buffer | null): "daemon" | "hidden" | "other" => {
    const { pid, parent, startTime, hasTerminal, name } = row;
    if (Number(startTime) < Number(since) || hasTerminal || parent !== parentOfOrphans) return "other";
    if (name === serviceTitle || environment?.includes(`${instanceVariable}=`)) return "other";
    try {
      if (userOf(pid) !== userOf("self") || controlGroup(pid) !== group) return "other";
      return openPathsOf(pid).some(isInside) ? "daemon" : "other";
    } catch (error) {
      const isDenied = error instanceof Error && "code" in error && error.code === "EACCES";
      return isDenied ? "hidden" : "other";
    }
  };
};

let adopter: Promise<number | null> | undefined;

/**
 * The pid of the parent that the kernel gives to orphans: init, or a subreaper above the service. A short-lived orphan shows
 * it. Null: unknown, or the service itself, whose own children look like orphans.
 */
const findAdopter = async (): Promise<number | null> => {
  const orphan = "sleep 10 > /dev/null 2>&1 & echo $!";
  try {
    const { stdout } = await promisify(execFile)("/bin/sh", ["-c", orphan], {
      env: { PATH: "/usr/bin:/bin" },
    });
    const row = readRow(Number(stdout));
    if (row === null) throw new Error("the orphan has ended");
    signalProcess(row.pid, "SIGKILL");
    return row.parent === process.pid ? null : row.parent;
  } catch {
    // For example, no further process may be started. The next run tries again.
    adopter = undefined;
    return null;
  }
};

/** @throws when the process has ended */
const controlGroup = (pid: number | "self"): string => readFileSync(`/proc/${pid}/cgroup`, "latin1");

/** The real user. @throws when the process has ended */
const userOf = (pid: number | "self"): string | undefined =>
  /^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];

/** @throws EACCES when the kernel does not show it, ENOENT when the process has ended */
const openPathsOf = (pid: number): string[] => {
  const paths = [readlinkSync(`/proc/${pid}/cwd`)];
  const files = readdirSync(`/proc/${pid}/fd`).slice(0, maxFiles);
  for (const name of ["exe", ...files.map((file) => `fd/${file}`)]) {
    try {
      paths.push(readlinkSync(`/proc/${pid}/${name}`));
    } catch {
      // The file has been closed.
    }
  }
  return paths;
};

/** How many open files of one process are inspected. */
const maxFiles = 1000;
