import { readFile } from "node:fs/promises";

/** A process for certain: pids are reused; a pid with its start time and the boot it belongs to is not. */
export type ProcessIdentity = {
  pid: number;
  /** Field 22 of /proc/PID/stat: clock ticks from boot to the start of the process. */
  start_time: string;
  boot_id: string;
};

/** The identity of a living process, or null when it is gone (a zombie counts as gone) or /proc cannot tell. */
export const identify = async (pid: number): Promise<ProcessIdentity | null> => {
  const stat = await readFile(`/proc/${pid}/stat`, "latin1").catch(() => null);
  if (stat === null) return null;
  // The command name stands in parentheses and may hold anything: fields are counted from the last one.
  const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  if (state === "Z" || state === "X") return null;
  return { pid, start_time: fields[18] ?? "", boot_id: await bootId() };
};

/** Whether this very process, and not a later one with its number, is alive. */
export const isAlive = async (identity: ProcessIdentity): Promise<boolean> => {
  const now = await identify(identity.pid);
  return now !== null && now.start_time === identity.start_time && now.boot_id === identity.boot_id;
};

let boot: Promise<string> | undefined;

/** Tells this boot of the machine from all others. */
export const bootId = (): Promise<string> =>
  (boot ??= readFile("/proc/sys/kernel/random/boot_id", "latin1").then(
    (text) => text.trim(),
    () => "unknown",
  ));
