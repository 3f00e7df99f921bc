import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { identify, isAlive } from "../../src/lib/process/identity.ts";
import { isSwapped, putBack } from "./swap.ts";

/** npm takes seconds to pack; a guard that outlives npm only delays itself. */
const longestMs = 120_000;

/** Starts a process that puts package.json back when npm, of this pid, dies before it has called postpack. */
export const startGuard = (npm: number): void =>
  spawn(process.execPath, [import.meta.filename, String(npm)], { detached: true, stdio: "ignore" }).unref();

const guard = async (root: string, pid: number): Promise<void> => {
  const npm = await identify(pid);
  const end = performance.now() + longestMs;
  while ((await isSwapped(root)) && npm !== null && (await isAlive(npm)) && performance.now() < end)
    await delay(50);
  await putBack(root);
};

/**
 * The pid of the npm that runs this script. Ask before the work begins: whoever dies has no children any more. npm runs a
 * script through a shell, which may have become what it runs, and that is the set-up.
 */
export const npmPid = async (pid = process.ppid): Promise<number> => {
  const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  if (!/^\S*(sh\0-c|node\0tools\/run\.mjs)\0.*prepack\.ts/.test(commandLine)) return pid;
  const stat = await readFile(`/proc/${pid}/stat`, "latin1");
  const [, parent = ""] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return npmPid(Number(parent));
};

if (import.meta.main) await guard(join(import.meta.dirname, "..", ".."), Number(process.argv[2]));
