import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import { createMembership } from "../jobs/membership.ts";
import { createOwnership } from "../jobs/ownership.ts";
import { createSweep } from "../jobs/sweep.ts";
import type { Worker } from "../jobs/worker.ts";
import type { Log } from "../lib/log.ts";
import type { InstanceFacts, Instances } from "../store/instances.ts";
import type { JobRecord } from "../store/job-record.ts";
import { startRepeating } from "./retention.ts";
import type { Stores } from "./stores.ts";
import type { Overview } from "../contract/instance.ts";
import type { JobStore } from "../store/job-store.ts";

type Dependencies = {
  stores: Stores;
  worker: Worker;
  onEnded: (record: JobRecord) => void;
  settings: Settings;
  /** This start of the instance. */
  self: { epoch: string; startedAt: Date; version: string };
  /** Whether the instance accepts no more jobs, whatever others ask of it. */
  isEnding: () => boolean;
  /** Called when another process has taken over this instance's name: this one must end. */
  onSuperseded: (error: Error) => void;
  now: () => Date;
  log: Log;
};

/** Makes the service one of several instances. A single instance runs the same code. */
export const createCluster = ({
  stores,
  worker,
  onEnded,
  settings,
  self,
  isEnding,
  onSuperseded,
  now,
  log,
}: Dependencies) => {
  const { instances, presence, queue, isLiving } = stores;
  const { podName } = settings;
  const ownership = createOwnership({
    store: stores.jobs,
    worker,
    epoch: self.epoch,
    leaseMayHaveLapsed: presence.mayHaveLapsed,
    log,
  });
  const membership = createMembership({
    instances,
    presence,
    settings,
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
    onEnded,
    settings,
    epoch: self.epoch,
    // While the service ends, some runs end here whose outcome the next start writes.
    ownRuns: () => (isEnding() ? null : new Set(worker.runs().map(({ id }) => id))),
    now,
    log,
  });
  /** Reads it afresh: the last reading may be a second old, and the instance may have come back. */
  const isAlive = async (name: string): Promise<boolean> => {
    if (isLiving(name)) return true;
    await presence.refresh();
    return isLiving(name);
  };

  let sweeper: ReturnType<typeof startRepeating> | null = null;

  return {
    /**
     * Takes this instance's name; `turns`: chat turns and completions in flight here.
     * @throws Error with a sentence for the operator when the name is in use
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
        address: null,
        agent_mode: settings.agentMode,
      });
      await presence.join(facts());
      // Without a first reading, other instances would seem to be missing.
      await presence.refresh();
      return facts;
    },
    /** Begins to renew the lease and to check its runs. */
    start: (facts: () => InstanceFacts): void => {
      membership.start(facts);
      const round = stores.shared ? sweep.round : sweep.ownRound;
      // Without runs it looks less often: one that begins is seen long before the lease of a lost instance expires.
      const restful = stores.shared ? Math.floor(settings.instanceLease / 4) : 0;
      let rest = 0;
      sweeper = startRepeating(async () => {
        if (rest-- > 0) return;
        const areRuns = await round().catch((err: unknown) => {
          log.debug({ err }, "lost runs could not be looked for");
          return true;
        });
        rest = areRuns === false ? restful : 0;
      }, 1000);
    },
    /** Whether it accepts no new work. */
    isDraining,
    /** @throws ServiceError `draining` when it accepts no new work */
    requireOpen: (): void => {
      if (!isDraining()) return;
      const message = `The instance ${podName} takes no new work; ask another one, or try again shortly`;
      throw new ServiceError("draining", message, { retryAfter: 10 });
    },
    isAlive,
    /**
     * Ends the run of a cancelled job if it is here. Other instances see the cancel in the record, which they check
     * every second.
     */
    interrupt: (record: JobRecord): void => {
      if (record.pod_name === podName) worker.interrupt(record);
    },
    /** Where the worktree of a job is. */
    locationOf: ({ pod_name }: JobRecord): "here" | "other" | "lost" => {
      if (!stores.shared || pod_name === null || pod_name === podName) return "here";
      return isLiving(pod_name) ? "other" : "lost";
    },
    /** The instance on whose disk the worktree of a job is; null: any instance may continue it. */
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

/** Another process has taken over this instance's name: two of one name would treat each other's jobs as their own. */
class Superseded extends Error {
  override name = "Superseded";
  constructor(podName: string) {
    super(`another instance has started as ${podName}; give each instance a SERVICE_POD_NAME of its own`);
  }
}

type ViewDependencies = {
  store: Pick<JobStore, "counts" | "ids" | "get" | "tally" | "unsettled">;
  instances: Pick<Instances, "list">;
  now: () => Date;
};

/** The length of the queue and what each instance runs. Rejects with `ServiceError("store_unavailable")`. */
export const createInstancesView = ({ store, instances, now }: ViewDependencies) => {
  const oldestWait = async (): Promise<number | null> => {
    // A claim between the two reads may remove the first; the next one is the oldest then.
    for (const id of await store.ids("queued", 3)) {
      const record = await store.get(id);
      if (record?.status === "queued") {
        const waited = now().getTime() - Date.parse(record.created_at);
        return Math.max(0, Math.round(waited / 100) / 10);
      }
    }
    return null;
  };

  return {
    overview: async (): Promise<Overview> => {
      const [counts, runs, oldest, { lost, recovered }, living] = await Promise.all([
        store.counts(),
        store.unsettled(),
        oldestWait(),
        store.tally(),
        instances.list(),
      ]);
      return {
        queue: { waiting: counts.queued, running: counts.running, oldest_wait_seconds: oldest },
        lost,
        recovered,
        // The start of an instance is internal.
        instances: living.map(({ epoch: _epoch, ...facts }) => ({
          ...facts,
          // Its own report may be seconds old.
          running: runs.filter(({ podName }) => podName === facts.name).length,
        })),
      };
    },
  };
};
