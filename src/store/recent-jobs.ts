import { isFinal, jobStatuses } from "../contract/job.ts";
import type { Log } from "../lib/log.ts";
import { openFilesRecords } from "./files-records.ts";
import { isJobId, parseRecord, type JobRecord } from "./job-record.ts";
import type { JobStore } from "./job-store.ts";
import type { Kind } from "./records.ts";
import { isOfStore } from "./spool.ts";

/** The state of a job that this instance wrote last, and when, ms since the epoch. */
type Recent = { at: number; record: JobRecord };

/** How long a state is kept, ms: Sentinel promotes a replica that is up to five minutes behind. At most so many are. */
const maxAge = 600_000;
const maxJobs = 1000;

/**
 * States of jobs that this instance wrote last: those of ended jobs in files, the others in memory. A fail-over to a replica
 * that is behind, or a restart without the last data, loses states that callers were told; they are written again.
 */
export const openRecentJobs = async (options: { directory: string; now: () => Date; log: Log }) => {
  const { now, log } = options;
  const recent = await openFilesRecords(recentKind, options);

  const prune = async (): Promise<void> => {
    const excess = Math.max(0, (await recent.count(all)) - maxJobs);
    const old = await recent.list(all, { until: now().getTime() - maxAge });
    for (const { id } of [...old, ...(await recent.list(all, { limit: excess }))])
      await recent.change(id, () => null);
  };

  const restore = async (store: JobStore, id: string): Promise<JobRecord | null> => {
    // One that this disk does not give back must not keep the others from the store.
    const item = await recent.get(id).catch(() => null);
    if (item === null) return null;
    const { at, record } = item;
    if ((await store.get(id)) !== null)
      return await store.update(id, { status: jobStatuses }, (current) =>
        isBehind(current, record) ? record : null,
      );
    // Past this time it may have been deleted, also after an end elsewhere.
    const since = record.ended_at === null ? at : Date.parse(record.ended_at);
    if (since + record.ttl_seconds * 1000 <= now().getTime()) return null;
    const creation = await store.create(record);
    return "created" in creation && creation.created ? record : null;
  };

  return {
    /** An ended job's state is durable when it resolves. Never rejects. */
    note: async (record: JobRecord): Promise<void> => {
      try {
        const lazy = !isFinal(record.status);
        await recent.change(record.id, () => ({ at: now().getTime(), record }), { lazy });
        await prune();
      } catch (err) {
        log.error({ err, job: record.id }, "the state of the job cannot be kept on disk as well");
      }
    },
    /** Writes again what the store has lost. Resolves to these records. Rejects with a failure of the store. */
    replay: async (store: JobStore): Promise<JobRecord[]> => {
      const restoreOne = async ({ id }: { id: string }): Promise<JobRecord | null> => {
        const restored = await restore(store, id).catch((err: unknown) => {
          if (isOfStore(err)) throw err;
          log.warn({ err, job: id }, "the last state of the job cannot be written again");
          return null;
        });
        if (restored)
          log.warn({ job: id, status: restored.status }, "the store had lost a state; it is written again");
        return restored;
      };
      const restored = await Promise.all((await recent.list(all)).map(restoreOne));
      return restored.filter((record) => record !== null);
    },
  };
};

/**
 * Whether the store has an older state of the job than `record`, which was in it:
 *
 * | the store has                                          | older                                                |
 * |--------------------------------------------------------|------------------------------------------------------|
 * | an ended job                                           | when it is the same end, and only `record` is settled |
 * | a job that has not ended, and in `record` it has       | yes: a job ends once                                 |
 * | an earlier attempt, or the job queued for this attempt | yes                                                  |
 * | the same attempt                                       | when it has passed fewer stages, or lacks the process |
 * | anything else                                          | no: other writers have taken it further              |
 */
export const isBehind = (current: JobRecord, record: JobRecord): boolean => {
  if (isFinal(current.status))
    return current.status === record.status && current.unsettled && !record.unsettled;
  if (isFinal(record.status)) return true;
  const [before, after] = [stepOf(current), stepOf(record)];
  if (before !== after) return before < after;
  const lacksProcess = current.process === null && record.process !== null;
  const isSameRun = current.instance_epoch === record.instance_epoch;
  return current.stages.length < record.stages.length || (lacksProcess && isSameRun);
};

/** Counts claims, and returns to the queue, of a job that has not ended. */
const stepOf = ({ attempt, status }: JobRecord): number => attempt * 2 + (status === "queued" ? 1 : 0);

const all = "all";

const recentKind: Kind<Recent> = {
  noun: "recent state of a job",
  key: "",
  isId: isJobId,
  parse: (text, id) => {
    const { at, record } = JSON.parse(text) as Partial<Recent>;
    const parsed = parseRecord(JSON.stringify(record ?? null), id);
    return typeof parsed === "string" ? parsed : { at: Number(at), record: parsed };
  },
  entries: ({ at }) => [{ index: all, at }],
  inMemory: ({ record }) => !isFinal(record.status),
};
