import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import { createMembership } from "../jobs/membership.ts";
import { createOwnership } from "../jobs/ownership.ts";
import { createSweep } from "../jobs/sweep.ts";
import type { Worker } from "../jobs/worker.ts";
import type { Log } from "../lib/log.ts";
import type { InstanceFacts } from "../store/instances.ts";
import type { JobRecord } from "../store/job-record.ts";
import { startRepeating } from "./housekeeper.ts";
import type { Stores } from "./stores.ts";

type Dependencies = {
  stores: Stores;
  worker: Worker;
  settings: Settings;
  /** This start of the instance. */
  self: { epoch: string; startedAt: Date; version: string };
  /** Whether the instance takes no jobs any more, whatever others ask of it. */
  isEnding: () => boolean;
  /** Told when another start has taken this instance's name: it must end. */
  onSuperseded: (error: Error) => void;
  now: () => Date;
  log: Log;
};

/** What makes the service one of several instances; alone it does the same with nobody else there. */
export const createCluster = ({
  stores,
  worker,
  settings,
  self,
  isEnding,
  onSuperseded,
  now,
  log,
}: Dependencies) => {
  const { instances, lease, presence, queue, isLiving } = stores;
  const { podName } = settings;
  const ownership = createOwnership({
    store: stores.jobs,
    worker,
    epoch: self.epoch,
    leaseMayHaveLapsed: lease.mayHaveLapsed,
    log,
  });
  const membership = createMembership({
    instances,
    lease,
    ownership,
    queue,
    onSuperseded: () => onSuperseded(new Superseded(podName)),
    log,
  });
  const isDraining = (): boolean => isEnding() || membership.isDraining();
  const sweep = createSweep({
    store: stores.jobs,
    events: stores.events,
    queue,
    presence,
    jobEnds: stores.jobEnds,
    settings,
    epoch: self.epoch,
    // When the service ends, runs end here whose outcome the next start writes.
    ownRuns: () => (isEnding() ? null : new Set(worker.runs().map(({ id }) => id))),
    now,
    log,
  });
  /** As of now: the last look may be a second old, and the instance back since. */
  const isAlive = async (name: string): Promise<boolean> => {
    if (isLiving(name)) return true;
    await presence.refresh();
    return isLiving(name);
  };

  let sweeper: ReturnType<typeof startRepeating> | null = null;

  return {
    /**
     * Takes this instance's name; `turns`: chat turns and completions under way here.
     * @throws Error with a sentence for the operator when the name is taken
     */
    join: async (turns: () => number): Promise<() => InstanceFacts> => {
      const facts = (): InstanceFacts => ({
        name: podName,
        epoch: self.epoch,
        version: self.version,
        started_at: self.startedAt.toISOString(),
        running: worker.runningCount(),
        max_parallel_jobs: settings.maxParallelJobs,
        turns: turns(),
        draining: isDraining(),
      });
      await lease.join(facts());
      // Nobody is to be taken for lost only because this instance has not looked yet.
      await presence.refresh();
      return facts;
    },
    /** Begins to renew the lease and to watch its runs. */
    start: (facts: () => InstanceFacts): void => {
      membership.start(facts);
      const round = stores.shared ? sweep.round : sweep.ownRound;
      sweeper = startRepeating(async () => {
        await round().catch((err: unknown) => log.debug({ err }, "lost runs could not be looked for"));
      }, 1000);
    },
    /** Whether it takes no new work. */
    isDraining,
    /** @throws ServiceError `draining` when it takes no new work */
    requireOpen: (): void => {
      if (!isDraining()) return;
      const message = `The instance ${podName} takes no new work; ask another one, or try again shortly`;
      throw new ServiceError("draining", message, { retryAfter: 10 });
    },
    isAlive,
    /** Ends the run of a cancelled job if it is here; another instance sees it in the record, which it looks at every second. */
    interrupt: ({ id, pod_name }: JobRecord): void => {
      if (pod_name === podName) worker.interrupt(id);
    },
    /** Where the worktree of a job is. */
    locationOf: ({ pod_name }: JobRecord): "here" | "other" | "lost" => {
      if (!stores.shared || pod_name === null || pod_name === podName) return "here";
      return isLiving(pod_name) ? "other" : "lost";
    },
    /** The instance on whose disk the worktree of a job still is; null: any may go on with it. */
    instanceWith: async ({
      pod_name,
      worktree_path,
      worktree_removed_at,
    }: JobRecord): Promise<string | null> => {
      const stands = worktree_path !== null && worktree_removed_at === null;
      if (!stores.shared || !stands || pod_name === null) return null;
      return (await isAlive(pod_name)) ? pod_name : null;
    },
    stop: async (): Promise<void> => {
      await sweeper?.stop();
      await membership.stop();
    },
  };
};

/** Another start has taken this instance's name: two of one name would take each other's jobs for their own. */
class Superseded extends Error {
  override name = "Superseded";
  constructor(podName: string) {
    super(`another instance has started as ${podName}; give each instance a SERVICE_POD_NAME of its own`);
  }
}
