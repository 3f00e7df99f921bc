import { setTimeout as delay } from "node:timers/promises";
import { familyOf, processTable, type ProcessRow } from "./table.ts";

export type EndGroupOptions = {
  /** Seconds between TERM and KILL; 0: KILL at once. */
  graceSeconds: number;
  signal?: AbortSignal | undefined;
};

/**
 * Ends a process group: TERM, then KILL for what is left of it after the grace. Resolves when no member lives (zombies
 * do not count) or 2 s after the KILL. Returns all that belonged to the family before the first signal: those who left
 * the group are reparented by then and could not be found any more.
 */
export const endGroup = async (
  group: number,
  { graceSeconds, signal }: EndGroupOptions,
): Promise<ProcessRow[]> => {
  const family = await familyOfGroup(group);
  if (graceSeconds > 0) {
    signalGroup(group, "SIGTERM");
    if (await emptied(group, graceSeconds, signal)) return family;
  }
  signalGroup(group, "SIGKILL");
  await emptied(group, 2, signal);
  return family;
};

/** Its members and all their descendants. The kernel is asked first: of most groups that have ended nobody is left. */
export const familyOfGroup = async (group: number): Promise<ProcessRow[]> => {
  try {
    process.kill(-group, 0);
  } catch (error) {
    // Members that may not be signalled are members.
    if (error instanceof Error && "code" in error && error.code === "ESRCH") return [];
  }
  return familyOf(await processTable(), group);
};

/** Signals every member; nothing happens when there is none. */
const signalGroup = (group: number, name: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(-group, name);
  } catch {
    // ESRCH: nobody is left, which is what the caller wants to know.
    return false;
  }
};

const emptied = async (group: number, seconds: number, signal: AbortSignal | undefined): Promise<boolean> => {
  const deadline = performance.now() + seconds * 1000;
  for (let pause = 5; ; pause = Math.min(pause * 1.5, 100)) {
    // No signal works at once.
    await delay(Math.min(pause, Math.max(0, deadline - performance.now())), undefined, { signal });
    // Asking the kernel is cheap but counts zombies: only when it finds somebody is /proc read.
    if (!signalGroup(group, 0)) return true;
    const rows = await processTable();
    if (rows.length > 0 && !rows.some((row) => row.group === group)) return true;
    if (performance.now() >= deadline) return false;
  }
};
