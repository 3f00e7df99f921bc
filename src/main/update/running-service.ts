import { existsSync } from "node:fs";
import { readdir, readFile, readlink, realpath } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { Settings } from "../../config/variables.ts";
import { identify, isAlive, type ProcessIdentity } from "../../lib/process/identity.ts";
import { drainInstance } from "../drain.ts";
import { holderOf, lockPath, stateDirectory } from "../instance-lock.ts";

export type RunningService = {
  url: string;
  process: ProcessIdentity;
  /** The systemd unit that it runs in; null: none. */
  unit: { name: string; ofUser: boolean } | null;
};

/**
 * The service of these settings on this machine; null: none runs.
 * @throws Error with a sentence for the user when it may not or should not be stopped from here
 */
export const findService = async (
  settings: Settings,
  signal: AbortSignal,
): Promise<RunningService | null> => {
  const directory = stateDirectory(settings);
  // Looking for a holder would create the file, as this user.
  if (!existsSync(lockPath(directory))) return null;
  const holder = await holderOf(directory, signal);
  if (holder === null) return null;
  const { url, pid } = holder;
  if (url === null)
    throw new Error(
      `Process ${pid} serves an MCP client on its standard input, and jobs in it would not be waited for; close that client first`,
    );
  const process = await identify(pid);
  // In another container the number may be that of a stranger here.
  if (process === null || !(await hasOpen(pid, lockPath(directory))))
    throw new Error(
      `The service at ${url} (process ${pid}) cannot be stopped from here: run svc update as its user, on its machine and in its container`,
    );
  return { url, process, unit: unitOf(await readFile(`/proc/${pid}/cgroup`, "utf8").catch(() => "")) };
};

const hasOpen = async (pid: number, path: string): Promise<boolean> => {
  const directory = `/proc/${pid}/fd`;
  const names = await readdir(directory).catch(() => []);
  const files = await Promise.all(names.map((name) => readlink(`${directory}/${name}`).catch(() => "")));
  return files.includes(await realpath(path));
};

/** By the text of /proc/PID/cgroup. A session of a terminal is a scope, not a service. */
export const unitOf = (cgroup: string): RunningService["unit"] => {
  const path = /^0::(.*)$/m.exec(cgroup)?.[1] ?? "";
  const name = /\/([^/]+\.service)$/.exec(path)?.[1];
  return name === undefined ? null : { name, ofUser: path.includes("/user@") };
};

type Stop = { settings: Settings; signal: AbortSignal; say: (sentence: string) => void };

/** Lets it finish what runs, as SIGTERM does, for up to its SERVICE_DRAIN_TIMEOUT, and resolves when it has ended. */
export const stopService = async (
  service: RunningService,
  { settings, signal, say }: Stop,
): Promise<void> => {
  const { kvUrl, drainTimeout } = settings;
  if (kvUrl !== null) {
    // First it takes no more jobs from the queue, while the other instances go on.
    const timeout = Math.max(1, drainTimeout);
    await drainInstance({ ...settings, kvUrl }, { timeout, signal, say });
    signal.throwIfAborted();
  }
  const who = `the service at ${service.url} (process ${service.process.pid})`;
  say(`Stopping ${who}: what runs gets its SERVICE_DRAIN_TIMEOUT to finish`);
  if (await isAlive(service.process)) process.kill(service.process.pid, "SIGTERM");
  for (let round = 1; await isAlive(service.process); round += 1) {
    if (round % progressRounds === 0) say(`Still waiting for ${who}`);
    await delay(pollMs, undefined, { signal });
  }
};

const pollMs = 100;
const progressRounds = 10_000 / pollMs;

/** Waits until a service runs again, at most half a minute. */
export const isBack = async (settings: Settings, signal: AbortSignal): Promise<boolean> => {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(30_000)]);
  try {
    while ((await findService(settings, limit)) === null) await delay(500, undefined, { signal: limit });
    return true;
  } catch {
    return false;
  }
};
