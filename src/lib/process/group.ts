import { setTimeout as delay } from "node:timers/promises";
import { familyOf, processTable, type ProcessRow } from "./table.ts";

/**
 * Ends a process group: TERM, then KILL after the grace (0: at once). Resolves when no member is alive, or 2 s after the
 * KILL. Returns the family before the first signal: processes that had left the group cannot be found afterwards.
 */
export const endGroup = async (group: number, graceSeconds: number): Promise<ProcessRow[]> => {
  const family = await familyOfGroup(group);
  if (graceSeconds > 0) {
    signalGroup(group, "SIGTERM");
    if (await emptied(group, graceSeconds)) return family;
  }
  signalGroup(group, "SIGKILL");
  await emptied(group, 2);
  return family;
};

/** The members of a group and all their descendants. Asks the kernel first: most groups that ended are empty. */
export const familyOfGroup = async (group: number): Promise<ProcessRow[]> => {
  try {
    process.kill(-group, 0);
  } catch (error) {
    // A member that may not be signalled is a member.
    if (error instanceof Error && "code" in error && error.code === "ESRCH") return [];
  }
  return familyOf(await processTable(), group);
};

/** Signals every member. False: there is none. */
export const signalGroup = (group: number, name: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(-group, name);
  } catch {
    return false;
  }
};

const emptied = async (group: number, seconds: number): Promise<boolean> => {
  const deadline = performance.now() + seconds * 1000;
  for (let wait = 5; ; wait = Math.min(wait * 1.5, 100)) {
    // No signal takes effect at once.
    await delay(Math.min(wait, Math.max(0, deadline - performance.now())));
    // Asking the kernel is cheap but counts zombies: /proc is read only when a member is left.
    if (!signalGroup(group, 0)) return true;
    const rows = await processTable();
    if (rows.length > 0 && !rows.some((row) => row.group === group)) return true;
    if (performance.now() >= deadline) return false;
  }
};
