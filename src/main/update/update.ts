import { mkdir, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Settings } from "../../config/variables.ts";
import { git, GitError } from "../../lib/git.ts";
import { bytes } from "../../lib/quantities.ts";
import { fetchPackage } from "./fetch-package.ts";
import {
  activate,
  findInstallation,
  lockInstallation,
  moveIn,
  packageName,
  readPackage,
  type Installation,
  type Package,
} from "./installation.ts";
import { findService, isBack, stopService, type RunningService } from "./running-service.ts";
import { prove } from "./trial.ts";

type Request = {
  /** Where the new version comes from; null: back to the version before. */
  source: string | null;
  settings: Settings;
  env: Record<string, string>;
  /** Asks whether to stop the service and change the version, once everything else is done; rejects to stop here. */
  confirm: (question: string) => Promise<void>;
  say: (sentence: string) => void;
  signal: AbortSignal;
};

/** `start`: the command that starts the service that was stopped; null: none was, or systemd has started it. */
export type Updated = { from: string; to: string; start: string | null };

/**
 * Replaces the installed package. Until the last step nothing of what is installed has changed, and the service is
 * stopped only after the other version has proved itself.
 * @throws Error with a sentence for the user, or the signal's reason; what was installed is installed then
 */
export const runUpdate = async (request: Request): Promise<Updated> => {
  const { source, settings, confirm, say, signal } = request;
  await using _lock = await lockInstallation(await findInstallation(), signal);
  const installation = await findInstallation();
  // A service that cannot be stopped is a refusal, which should not come after minutes.
  await findService(settings, signal);
  const staging = join(installation.modules, `.${packageName}.new`);
  await rm(staging, { recursive: true, force: true });
  if (source !== null) await requireRoom(installation);
  // Job records come into it, which are for their user only.
  await mkdir(staging, { mode: 0o700 });
  try {
    const next = await (source === null
      ? versionBefore(installation)
      : fetchPackage({ ...request, source, staging }));
    const [from, to] = [installation.active.version, next.version];
    if (await isSame(installation.active, next, request)) {
      say(`svc ${to} is installed already, with the same content: nothing is changed`);
      return { from, to, start: null };
    }
    say(`Starting svc ${to} on a copy of the store`);
    await prove(next, { ...request, directory: join(staging, "trial") });
    say(`It is ready, and reads the records as svc ${from} does`);
    const running = await findService(settings, signal);
    const stopping = running === null ? "" : `, and stop the service at ${running.url}`;
    await confirm(`Change svc from ${from} to ${to}${stopping}? [y/N] `);
    if (running === null) say(`No service runs on ${settings.jobsDir}: nothing to drain`);
    else await stopService(running, request);
    const change = async (): Promise<void> =>
      activate(installation, source === null ? next : await moveIn(installation, next));
    await change().catch(async (cause: unknown) => {
      const start = running && (await startAgain(running, installation, request));
      const wayOut =
        start === null ? "" : `. In the environment that it had, start the service again with "${start}"`;
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`The programs cannot be replaced (${why}), and svc ${from} stands${wayOut}`, { cause });
    });
    say(`svc is ${to} now; svc update --rollback goes back to ${from}`);
    return { from, to, start: running && (await startAgain(running, installation, request)) };
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
};

/** npm writes until the disk is full, and then says so in many words. */
const requireRoom = async ({ modules }: Installation): Promise<void> => {
  const { bavail, bsize } = await statfs(modules);
  const [free, needed] = [bavail * bsize, 100 * 1024 ** 2];
  if (free >= needed) return;
  throw new Error(
    `The disk of ${modules} has ${bytes(free)} free, and an update needs ${bytes(needed)}: free some space there`,
  );
};

/** Whether the trees have the same files. */
const isSame = async (
  { directory }: Package,
  next: Package,
  { env, signal }: Pick<Request, "env" | "signal">,
): Promise<boolean> => {
  const args = ["diff", "--no-index", "--quiet", "--", directory, next.directory];
  return await git(args, { env, signal, timeoutSeconds: 60 }).then(
    () => true,
    (error: unknown) => {
      if (error instanceof GitError && error.exitCode === 1) return false;
      throw error;
    },
  );
};

const versionBefore = async ({ other }: Installation): Promise<Package> => {
  const before = await readPackage(other);
  if (before !== null) return before;
  throw new Error("There is no version before: svc update has not changed this installation yet");
};

/** The command that is left to the user. */
const startAgain = async (
  { unit, url }: RunningService,
  { bin }: Installation,
  { settings, say, signal }: Request,
): Promise<string | null> => {
  if (unit !== null) {
    say(`Waiting until systemd starts ${unit.name} again`);
    if (await isBack(settings, signal)) return null;
    return `systemctl ${unit.ofUser ? "--user " : ""}start ${unit.name}`;
  }
  const { port } = new URL(url);
  const option = port === String(settings.port) ? "" : ` --port ${port}`;
  return `${join(bin, "svc")} serve${option}`;
};
