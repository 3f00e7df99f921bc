import type { Kv } from "../src/kv/kv.ts";
import type { Log } from "../src/lib/log.ts";
import { openFilesRecords } from "../src/store/files-records.ts";
import { createJobStore, jobKind, type JobStore } from "../src/store/job-store.ts";
import { openRedisRecords } from "../src/store/redis-records.ts";

const now = (): Date => new Date();

export const openFilesJobStore = async (directory: string, log: Log): Promise<JobStore> =>
  createJobStore(await openFilesRecords(jobKind(null), { directory, now, log }), null);

/** The view of the instance `podName`. */
export const openRedisJobStore = ({ kv, podName, log }: { kv: Kv; podName: string; log: Log }): JobStore =>
  createJobStore(openRedisRecords(jobKind(podName), { kv, now, log }), podName);
