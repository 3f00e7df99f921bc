import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { readRow } from "./table.ts";

/** Identifies a process for certain: a pid may be reused, a pid with its start time and boot may not. */
export type ProcessIdentity = {
  pid: number;
  /** Field 22 of /proc/PID/stat: clock ticks from boot to the start of the process. */
  start_time: string;
  boot_id: string;
};

/** The identity of a living process; null when it has ended (also a zombie), or without /proc. */
export const identify = async (pid: number): Promise<ProcessIdentity | null> => {
  const row = readRow(pid);
  return row && { pid, start_time: row.startTime, boot_id: await bootId() };
};

/**
 * The identity of a child process; null when it has ended: `exited` resolves then. Rejects when it is alive and cannot be
 * identified: no file can be opened, or there is no /proc.
 */
export const identifyChild = async (pid: number, exited: Promise<void>): Promise<ProcessIdentity | null> => {
  const identity = await identify(pid);
  if (identity !== null) return identity;
  return await Promise.race([
    exited.then(() => null),
    delay(exitPatienceMs, undefined, { ref: false }).then(() => {
      throw new Error(`the process ${pid} could not be read in /proc`);
    }),
  ]);
};

/** How long the exit of a child that has ended may take to be known, ms. */
const exitPatienceMs = 2000;

/** Whether this process, and not a later one with its number, is alive. */
export const isAlive = async (identity: ProcessIdentity): Promise<boolean> => {
  const now = await identify(identity.pid);
  return now !== null && now.start_time === identity.start_time && now.boot_id === identity.boot_id;
};

let boot: Promise<string> | undefined;

/** Identifies this boot of the machine. */
const bootId = (): Promise<string> =>
  (boot ??= readFile("/proc/sys/kernel/random/boot_id", "latin1").then(
    (text) => text.trim(),
    () => "unknown",
  ));
