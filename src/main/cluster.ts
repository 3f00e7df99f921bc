import type { Overview } from "../contract/instance.ts";
import { ServiceError } from "../contract/errors.ts";
import { createMembership } from "../jobs/membership.ts";
import { createOwnership } from "../jobs/ownership.ts";
import { createSweep } from "../jobs/sweep.ts";
import type { Credential, Worker } from "../jobs/worker.ts";
import type { InstanceFacts, Instances } from "../store/instances.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { ServiceContext } from "./context.ts";
import { startRepeating } from "./retention.ts";
import type { Stores } from "./stores.ts";

type Dependencies = Pick<ServiceContext, "settings" | "now" | "log"> & {
  stores: Stores;
  worker: Worker;
  onEnded: (record: JobRecord) => void;
  credential: Pick<Credential, "digest">;
  /** This start of the instance. */
  self: { epoch: string; startedAt: Date; version: string };
  /** Aborted when the instance accepts no more jobs, whatever others ask of it. */
  ending: AbortSignal;
  /** Called when another process has taken over this instance's name: this one must end. */
  onSuperseded: (error: Error) => void;
};

/** Makes the service one of several instances. A single instance runs the same code. */
export const createCluster = (deps: Dependencies) => {
  const { stores, worker, settings, self, ending, log } = deps;
  const { presence, isLiving } = stores;
  const { podName } = settings;
  const parts = { ...stores, ...deps, store: stores.jobs, epoch: self.epoch };
  const ownership = createOwnership({ ...parts, leaseMayHaveLapsed: presence.mayHaveLapsed });
  const superseded = `another instance has started as ${podName}; give each instance a SERVICE_POD_NAME of its own`;
  const membership = createMembership({
    ...parts,
    ownership,
    onSuperseded: () => deps.onSuperseded(new Error(superseded)),
  });
  const isDraining = (): boolean => ending.aborted || membership.isDraining();
  const sweep = createSweep({
    ...parts,
    // While the service ends, some runs end here whose outcome the next start writes.
    ownRuns: () => (ending.aborted ? null : new Set(worker.runs().map(({ id }) => id))),
  });
  /** Reads it afresh: the last reading may be a second old, and the instance may have come back. */
  const isAlive = async (name: string): Promise<boolean> => {
    if (isLiving(name)) return true;
    await presence.refresh();
    return isLiving(name);
  };
  const factsOf = (turns: number, address: string | null): InstanceFacts => ({
    name: podName,
    epoch: self.epoch,
    version: self.version,
    started_at: self.startedAt.toISOString(),
    running: worker.runningCount(),
    max_parallel_jobs: settings.maxParallelJobs,
    turns,
    draining: isDraining(),
    address,
    agent_mode: settings.agentMode,
  });
  let sweeper: ReturnType<typeof startRepeating> | null = null;

  /** Looks for lost runs every second. Without any run it looks less often: one that begins is seen in time. */
  const startSweep = (): void => {
    const [round, restful] = stores.shared
      ? [sweep.round, Math.floor(settings.instanceLease / 2)]
      : [sweep.ownRound, 0];
    let rest = 0;
    sweeper = startRepeating(async () => {
      if (rest-- > 0) return;
      const areRuns = await round().catch((err: unknown) => {
        log.debug({ err }, "lost runs could not be looked for");
        return true;
      });
      rest = areRuns === false ? restful : 0;
    }, 1000);
  };

  return {
    /** Takes this instance's name. @throws Error with a sentence for the operator when it is in use */
    join: async (): Promise<void> => {
      await presence.join(factsOf(0, null));
      // Without a first reading, other instances would seem to be missing.
      await presence.refresh();
    },
    /** Begins to renew the lease and to check its runs. `turns`: chat turns and completions in flight here. */
    start: (turns: () => number, address: string | null): void => {
      membership.start(() => factsOf(turns(), address));
      startSweep();
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
    /** Ends the run of a cancelled job if it is here. Other instances see the cancel in the record, each second. */
    interrupt: (record: JobRecord): void => {
      if (record.pod_name === podName) worker.interrupt(record);
    },
    /** Where the worktree of a job is. */
    locationOf: ({ pod_name }: JobRecord): "here" | "other" | "lost" => {
      if (!stores.shared || pod_name === null || pod_name === podName) return "here";
      return isLiving(pod_name) ? "other" : "lost";
    },
    /** The instance on whose disk the worktree of a job is; null: any instance may continue it. */
    instanceWith: async (job: JobRecord): Promise<string | null> => {
      const stands = job.worktree_path !== null && job.worktree_removed_at === null;
      if (!stores.shared || !stands || job.pod_name === null) return null;
      return (await isAlive(job.pod_name)) ? job.pod_name : null;
    },
    stop: async (): Promise<void> => {
      await sweeper?.stop();
      await membership.stop();
    },
  };
};

type ViewDependencies = {
  store: Pick<JobStore, "counts" | "ids" | "get" | "tally" | "unsettled" | "limits">;
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
      const [counts, runs, oldest, { lost, recovered }, limits, living] = await Promise.all([
        store.counts(),
        store.unsettled(),
        oldestWait(),
        store.tally(),
        store.limits(),
        instances.list(),
      ]);
      return {
        queue: { waiting: counts.queued, running: counts.running, oldest_wait_seconds: oldest },
        lost,
        recovered,
        limits,
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
