import type { Kv } from "../src/kv/kv.ts";
import { isFinal } from "../src/contract/job.ts";
import { createLog, type Log } from "../src/lib/log.ts";
import { baseCheckKind, createBaseChecks, type BaseChecks } from "../src/store/base-checks.ts";
import { createEventBus, eventBusLog, type EventBus } from "../src/store/event-bus.ts";
import { createEventLog, type EventLog } from "../src/store/event-log.ts";
import { openFilesRecords } from "../src/store/files-records.ts";
import { createJobStore, jobKind, type JobStore } from "../src/store/job-store.ts";
import { createFileLogs, createMemoryLogs } from "../src/store/local-logs.ts";
import { openRedisRecords } from "../src/store/redis-records.ts";

const now = (): Date => new Date();

export const openFilesJobStore = async (directory: string, log: Log): Promise<JobStore> =>
  createJobStore(await openFilesRecords(jobKind(null), { directory, now, log }), null);

export const openBaseChecks = async (directory: string, log: Log): Promise<BaseChecks> =>
  createBaseChecks(await openFilesRecords(baseCheckKind, { directory, now, log }), now);

/** The view of the instance `podName`. */
export const openRedisJobStore = ({ kv, podName, log }: { kv: Kv; podName: string; log: Log }): JobStore =>
  createJobStore(openRedisRecords(jobKind(podName), { kv, now, log }), podName);

/** The event log in files, of jobs that are in that store. */
export const openFilesEventLog = (
  directory: string,
  { jobs, now, log }: { jobs: Pick<JobStore, "get">; now: () => Date; log: Log },
): EventLog =>
  createEventLog({
    logs: createFileLogs(directory),
    maxBytes: 1e6,
    ttlSeconds: 3600,
    describe: async (id) => {
      const record = await jobs.get(id);
      return record && { createdAt: record.created_at, over: isFinal(record.status) && !record.unsettled };
    },
    log,
    now,
  });

/** The event bus in memory, of at most so many characters. */
export const openLocalEventBus = (options: { now: () => Date; maxCharacters?: number }): EventBus =>
  createEventBus({
    logs: createMemoryLogs({ ...eventBusLog, ...options }),
    now: options.now,
    log: createLog("silent", (line) => line),
  });
