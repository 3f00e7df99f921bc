import { execFile } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { promisify } from "node:util";
import { instanceVariable, serviceTitle } from "./marker.ts";
import { readRow, signalProcess, type ProcessRow } from "./table.ts";

/** Where and since when a run is at work. */
export type Workplace = {
  /** When its first process started; see `ProcessRow`. */
  since: string;
  /** Its worktree and cached clone: absolute paths without links. */
  directories: readonly string[];
};

/**
 * Whether a process without the run's mark and out of its family is a daemon that the run has left: its working
 * directory, program or an open file is in the run's directories. A user's own shell or editor must not count, nor what
 * the service and other jobs do there. So only an orphan can be one (its parent is whoever adopts them) that has the service's user and control group, no terminal, no mark of any run, is no instance of
 * the service, and has started since the run began. "hidden": all that holds, but the kernel does not say where it is at
 * work, as for programs like ssh-agent that keep their secrets from processes of the same user.
 */
export const createDaemonLook = async ({ since, directories }: Workplace) => {
  const parentOfOrphans = await (adopter ??= probe());
  const group = controlGroup("self");
  const isInside = (path: string): boolean =>
    directories.some((directory) => `${path.replace(/ \(deleted\)$/, "")}/`.startsWith(`${directory}/`));

  return (row: ProcessRow, environment: Buffer | null): "left" | "hidden" | "stranger" => {
    const { pid, parent, startTime, hasTerminal, name } = row;
    if (Number(startTime) < Number(since) || hasTerminal || parent !== parentOfOrphans) return "stranger";
    if (name === serviceTitle || environment?.includes(`${instanceVariable}=`)) return "stranger";
    try {
      if (userOf(pid) !== userOf("self") || controlGroup(pid) !== group) return "stranger";
      return placesOf(pid).some(isInside) ? "left" : "stranger";
    } catch (error) {
      const isDenied = error instanceof Error && "code" in error && error.code === "EACCES";
      return isDenied ? "hidden" : "stranger";
    }
  };
};

let adopter: Promise<number | null> | undefined;

/**
 * The pid of the process that the kernel gives orphans to: init, or a subreaper above the service. A short-lived orphan shows it.
 * Null: it is not known, or it is the service itself, which cannot tell orphans from its own children.
 */
const probe = async (): Promise<number | null> => {
  const orphan = "sleep 10 > /dev/null 2>&1 & echo $!";
  try {
    const { stdout } = await promisify(execFile)("/bin/sh", ["-c", orphan], {
      env: { PATH: "/usr/bin:/bin" },
    });
    const row = readRow(Number(stdout));
    if (row === null) throw new Error("the orphan is gone");
    signalProcess(row.pid, "SIGKILL");
    return row.parent === process.pid ? null : row.parent;
  } catch {
    // There are too many processes, say. The next run tries again.
    adopter = undefined;
    return null;
  }
};

/** @throws when the process is gone */
const controlGroup = (pid: number | "self"): string => readFileSync(`/proc/${pid}/cgroup`, "latin1");

/** Its real user. @throws when the process is gone */
const userOf = (pid: number | "self"): string | undefined =>
  /^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];

/** @throws EACCES when the kernel does not say, ENOENT when the process is gone */
const placesOf = (pid: number): string[] => {
  const places = [readlinkSync(`/proc/${pid}/cwd`)];
  const files = readdirSync(`/proc/${pid}/fd`).slice(0, mostFiles);
  for (const name of ["exe", ...files.map((file) => `fd/${file}`)]) {
    try {
      places.push(readlinkSync(`/proc/${pid}/${name}`));
    } catch {
      // Closed by now.
    }
  }
  return places;
};

/** Open files of one process that are looked at. */
const mostFiles = 1000;
