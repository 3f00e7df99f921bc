import { homedir } from "node:os";
import { companionsDirectory, createCompanions } from "../companions/companions.ts";
import { jobStatuses } from "../contract/job.ts";
import { createProfiles } from "../profiles/profiles.ts";
import { createRepos } from "../repos/create.ts";
import { salvageRef } from "../repos/repos.ts";
import { boundaryOf } from "../profiles/sandbox-policy.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { ServiceContext } from "./context.ts";
import type { Stores } from "./stores.ts";

/** What jobs are made of: repositories, companion repositories, profiles. */
export const openSources = async (
  context: ServiceContext,
  { shared, locks, jobs }: Pick<Stores, "shared" | "locks" | "jobs">,
  { confine }: Sandbox,
) => {
  const { settings, redact, log } = context;
  const warnOfLoss = async (id: string, message: string): Promise<void> => {
    await jobs
      .update(id, { status: jobStatuses }, ({ warnings }) => ({ warnings: [...warnings, message] }))
      .catch((err: unknown) => log.warn({ err, job: id }, "the job could not be told of its lost work"));
  };
  const repos = createRepos({
    ...context,
    confine,
    ...(shared && { takeLease: locks.take }),
    onToken: redact.add,
    onLost: (ref, message) => {
      log.error({ ref }, message);
      void warnOfLoss(ref.slice(salvageRef("").length), message);
    },
  });
  await repos
    .clearRoot()
    .catch((err: unknown) => log.warn({ err }, "the worktree root could not be cleared"));
  const home = homedir();
  const companions = createCompanions({
    ...context,
    directory: companionsDirectory(home),
    checkOut: repos.checkOutFiles,
  });
  await companions.start();
  const profiles = createProfiles({
    settings,
    companions: companions.files,
    boundary: boundaryOf(settings, home),
    home,
    log,
  });
  return { repos, companions, profiles };
};
