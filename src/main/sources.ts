import { homedir } from "node:os";
import { companionsDirectory, createCompanions, type Companions } from "../companions/companions.ts";
import type { Settings } from "../config/variables.ts";
import type { Log } from "../lib/log.ts";
import type { Redactor } from "../lib/redact.ts";
import type { Profiles } from "../profiles/profile.ts";
import { createProfiles } from "../profiles/profiles.ts";
import { jobStatuses } from "../contract/job.ts";
import { createRepos } from "../repos/create.ts";
import { salvageRef, type Repos } from "../repos/repos.ts";
import type { Stores } from "./stores.ts";

type Request = {
  settings: Settings;
  env: NodeJS.ProcessEnv;
  stores: Pick<Stores, "shared" | "locks" | "jobs">;
  redact: Redactor;
  now: () => Date;
  log: Log;
};

export type Sources = { repos: Repos; companions: Companions; profiles: Profiles };

/** What jobs are made of: repositories, companion repositories, profiles. */
export const openSources = async ({ settings, env, stores, redact, now, log }: Request): Promise<Sources> => {
  const repos = createRepos({
    settings,
    env,
    ...(stores.shared && { takeLease: stores.locks.take }),
    onToken: redact.add,
    onLost: (ref, message) => {
      log.error({ ref }, message);
      const id = ref.slice(salvageRef("").length);
      const warned = stores.jobs.update(id, { status: jobStatuses }, ({ warnings }) => ({
        warnings: [...warnings, message],
      }));
      warned.catch((err: unknown) =>
        log.warn({ err, job: id }, "the job could not be told of its lost work"),
      );
    },
  });
  await repos
    .clearRoot()
    .catch((err: unknown) => log.warn({ err }, "the worktree root could not be cleared"));
  const home = homedir();
  const companions = createCompanions({
    settings,
    directory: companionsDirectory(home),
    checkOut: repos.checkOutFiles,
    now,
    log,
  });
  await companions.start();
  return {
    repos,
    companions,
    profiles: createProfiles({ settings, companions: companions.files, home, log }),
  };
};
