import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Settings } from "../../config/variables.ts";
import { fetchPackage } from "./fetch-package.ts";
import {
  activate,
  findInstallation,
  lockInstallation,
  moveIn,
  packageName,
  readPackage,
  requireWritable,
  type Installation,
  type Package,
} from "./installation.ts";
import { findService, isBack, stopService, type RunningService } from "./running-service.ts";
import { prove } from "./trial.ts";

type Request = {
  /** Where the new version comes from; null: back to the version before. */
  source: string | null;
  settings: Settings;
  env: NodeJS.ProcessEnv;
  /** Whether to stop the service and change the version, asked once everything else is done. */
  confirm: (question: string) => Promise<boolean>;
  say: (sentence: string) => void;
  signal: AbortSignal;
};

/** `service`: what became of the service; `start`: the command that starts it, null when it need not be started. */
export type Updated = {
  changed: boolean;
  from: string;
  to: string;
  service: "none" | "stopped" | "started";
  start: string | null;
};

/**
 * Replaces the installed package. Until the last step nothing of what is installed has changed, and the service is
 * stopped only after the other version has proved itself.
 * @throws Error with a sentence for the user, or the signal's reason; what was installed is installed then
 */
export const runUpdate = async (request: Request): Promise<Updated> => {
  const { source, settings, confirm, say, signal } = request;
  const found = await findInstallation();
  await requireWritable(found);
  await using _lock = await lockInstallation(found, signal);
  const installation = await findInstallation();
  const { active, modules } = installation;
  // A service that cannot be stopped is a refusal, which should not come after minutes.
  await findService(settings, signal);
  const staging = join(modules, `.${packageName}.new`);
  await rm(staging, { recursive: true, force: true });
  await mkdir(staging);
  try {
    const next =
      source === null
        ? await versionBefore(installation)
        : await fetchPackage({ ...request, source, staging });
    const change = { from: active.version, to: next.version };
    say(`Starting svc ${next.version} on a copy of the store`);
    const records = await prove(next, request);
    const jobs = Object.entries(records).reduce(
      (sum, [kind, count]) => sum + (kind.endsWith(" jobs") ? count : 0),
      0,
    );
    say(`It starts, and reads ${jobs === 1 ? "1 job" : `${jobs} jobs`} as this version does`);
    const running = await findService(settings, signal);
    const what = `${source === null ? "Go back" : "Change"} from svc ${change.from} to ${change.to}`;
    const question =
      running === null ? `${what}? [y/N] ` : `${what}, and stop the service at ${running.url}? [y/N] `;
    if (!(await confirm(question))) return { changed: false, ...change, service: "none", start: null };
    if (running === null) say(`No service runs on ${settings.jobsDir}: nothing to drain`);
    else await stopService(running, request);
    await activate(installation, source === null ? next : await moveIn(installation, next));
    say(`svc is ${change.to} now; svc update --rollback goes back to ${change.from}`);
    return { changed: true, ...change, ...(await startAgain(running, installation, request)) };
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
};

const versionBefore = async ({ other }: Installation): Promise<Package> => {
  const before = await readPackage(other).catch(() => null);
  if (before !== null) return before;
  throw new Error("There is no version before: svc update has not changed this installation yet");
};

const startAgain = async (
  running: RunningService | null,
  { bin }: Installation,
  { settings, say, signal }: Request,
): Promise<Pick<Updated, "service" | "start">> => {
  if (running === null) return { service: "none", start: null };
  const { unit, url } = running;
  if (unit !== null) {
    say(`Waiting until systemd starts ${unit.name} again`);
    if (await isBack(settings, signal)) return { service: "started", start: null };
    return { service: "stopped", start: `systemctl ${unit.ofUser ? "--user " : ""}start ${unit.name}` };
  }
  const { port } = new URL(url);
  const option = port === String(settings.port) ? "" : ` --port ${port}`;
  return { service: "stopped", start: `${join(bin, "svc")} serve${option}` };
};
