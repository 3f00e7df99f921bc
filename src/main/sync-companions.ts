import { homedir } from "node:os";
import { companionsDirectory, createCompanions, targetsOf } from "../companions/companions.ts";
import type { Settings } from "../config/variables.ts";
import type { CompanionTarget } from "../contract/companion.ts";
import { createLog } from "../lib/log.ts";
import { createRepos } from "../repos/create.ts";
import { unconfined } from "../repos/wall.ts";

type Request = {
  settings: Settings;
  env: NodeJS.ProcessEnv;
  target: CompanionTarget | "all";
  /** Instead of SERVICE_HOOKS_URL. */
  url: string | undefined;
  signal: AbortSignal;
};

/** Fetches companion repositories without a service. A service of this user sees the new checkouts within a second. */
export const syncCompanions = async ({ settings, env, target, url, signal }: Request) => {
  const hooks = url === undefined ? {} : { hooksUrl: url, hooksPath: null };
  const companions = createCompanions({
    settings: { ...settings, ...hooks },
    directory: companionsDirectory(homedir()),
    checkOut: createRepos({ settings, env, confine: unconfined }).checkOutFiles,
    now: () => new Date(),
    log: createLog("silent", (text) => text),
  });
  return companions.sync(targetsOf(target), signal);
};
