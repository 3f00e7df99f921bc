import type { Overview } from "../contract/instance.ts";
import type { Instances } from "../store/instances.ts";
import type { JobStore } from "../store/job-store.ts";

type Dependencies = {
  store: Pick<JobStore, "counts" | "ids" | "get" | "tally" | "unsettled">;
  instances: Pick<Instances, "list">;
  now: () => Date;
};

/** What all instances have before them and what each runs. Rejects with `ServiceError("store_unavailable")`. */
export const createInstancesView = ({ store, instances, now }: Dependencies) => {
  const oldestWait = async (): Promise<number | null> => {
    // One may be claimed between the two questions; the next one is the oldest then.
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
        // Which start of it answers is the instances' own affair.
        instances: living.map(({ epoch: _epoch, ...facts }) => ({
          ...facts,
          // Its own word may be seconds old.
          running: runs.filter(({ podName }) => podName === facts.name).length,
        })),
      };
    },
  };
};
