import { homedir } from "node:os";
import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import type { JobStatus } from "../contract/job.ts";
import { createBullQueue } from "../jobs/bullmq-queue.ts";
import { createLocalQueue } from "../jobs/local-queue.ts";
import type { Queue } from "../jobs/queue.ts";
import { connectKv } from "../kv/connect.ts";
import { createRedisBell } from "../kv/redis-bell.ts";
import { createBell, type Bell } from "../lib/bell.ts";
import type { Log } from "../lib/log.ts";
import { identify } from "../lib/process/identity.ts";
import type { EventLog } from "../store/event-log.ts";
import { openFilesEventLog } from "../store/files/files-event-log.ts";
import { openFilesJobStore } from "../store/files/files-job-store.ts";
import { openFilesWorktreeStore } from "../store/files/files-worktree-store.ts";
import type { Instances } from "../store/instances.ts";
import type { JobStore } from "../store/job-store.ts";
import { createLocalInstances } from "../store/local/local-instances.ts";
import { createLocalLocks } from "../store/local/local-locks.ts";
import type { Locks } from "../store/locks.ts";
import { openRedisEventLog } from "../store/redis/redis-event-log.ts";
import { createRedisInstances } from "../store/redis/redis-instances.ts";
import { openRedisJobStore } from "../store/redis/redis-job-store.ts";
import { createRedisLocks } from "../store/redis/redis-locks.ts";
import { openRedisWorktreeStore } from "../store/redis/redis-worktree-store.ts";
import type { WorktreeStore } from "../store/worktree-store.ts";
import { openAgentFiles, openSharedAgentStores, type AgentStores } from "./agent-stores.ts";

/** What the service keeps, and how its instances know of each other. */
export type Stores = {
  jobs: JobStore;
  worktrees: WorktreeStore;
  events: EventLog;
  queue: Queue;
  /** Rung with its id when a job has ended. */
  settlements: Bell;
  locks: Locks;
  instances: Instances;
  /** What agent mode keeps; null: it is off. */
  agentMode: AgentStores | null;
  /** Whether other instances share all this. */
  shared: boolean;
  /** The time that all instances go by. */
  now: () => Date;
  /** When the store last came back after it had been away, ms of `performance.now()`. */
  backSince: () => number;
  close: () => Promise<void>;
};

type Request = {
  settings: Settings;
  /** Tells whether nothing more happens to a job: it has ended and is cleaned up after, or nobody is left to do that. */
  isOver: (job: { status: JobStatus; unsettled: boolean; podName: string | null }) => boolean;
  /** This start of the instance. */
  epoch: string;
  log: Log;
};

/** Files, or the key-value store that `KV_URL` names. */
export const openStores = (request: Request): Promise<Stores> =>
  request.settings.kvUrl === null ? openFiles(request) : openShared(request, request.settings.kvUrl);

const openFiles = async ({ settings, log }: Request): Promise<Stores> => {
  const { jobsDir } = settings;
  const now = (): Date => new Date();
  const jobs = await openFilesJobStore(jobsDir, log);
  const worktrees = await openFilesWorktreeStore(join(jobsDir, "worktrees"), log);
  const events = await openFilesEventLog({
    directory: join(jobsDir, "events"),
    maxBytes: settings.eventLogMaxBytes,
    log,
    now,
  });
  const agentMode = settings.agentMode ? await openAgentFiles({ settings, home: homedir(), log, now }) : null;
  return {
    jobs,
    worktrees,
    events,
    queue: createLocalQueue({ concurrency: settings.maxParallelJobs, onError: failedWorker(log) }),
    settlements: createBell(),
    locks: createLocalLocks(),
    instances: createLocalInstances(),
    agentMode,
    shared: false,
    now,
    backSince: () => Number.NEGATIVE_INFINITY,
    close: async () => {
      await agentMode?.bus.close();
      await events.close();
      await jobs.close();
      await worktrees.close();
    },
  };
};

const openShared = async ({ settings, isOver, epoch, log }: Request, url: string): Promise<Stores> => {
  const { podName, instanceLease: leaseSeconds } = settings;
  const kv = await connectKv({ url, prefix: settings.kvKeyPrefix, log });
  const { now } = kv;
  const jobs = openRedisJobStore({ kv, podName, log });
  const worktrees = openRedisWorktreeStore({ kv, log });
  const bell = createRedisBell({ kv, log });
  const events = openRedisEventLog({
    kv,
    bell,
    maxBytes: settings.kvEventLogMaxBytes,
    ttlSeconds: settings.jobTtl,
    describe: async (id) => {
      const record = await jobs.get(id);
      if (record === null) return null;
      const { created_at: createdAt, status, unsettled, pod_name } = record;
      return { createdAt, over: isOver({ status, unsettled, podName: pod_name }) };
    },
    log,
    now,
  });
  const locks = createRedisLocks({ kv, leaseSeconds, owner: { podName, epoch } });
  const queue = createBullQueue({
    kv,
    podName,
    concurrency: settings.maxParallelJobs,
    lockSeconds: leaseSeconds,
    onError: failedWorker(log),
    log,
  });
  const agentMode = settings.agentMode ? openSharedAgentStores({ kv, bell }, { settings, log, now }) : null;
  return {
    jobs,
    worktrees,
    events,
    queue,
    settlements: bell,
    locks,
    instances: createRedisInstances({
      kv,
      name: podName,
      self: await identify(process.pid),
      leaseSeconds,
      log,
    }),
    agentMode,
    shared: true,
    now,
    backSince: kv.backSince,
    close: async () => {
      await agentMode?.bus.close();
      await queue.close();
      await events.close();
      await locks.close();
      await bell.close();
      await kv.close();
    },
  };
};

const failedWorker =
  (log: Log) =>
  (err: unknown, job: string): void =>
    log.error({ err, job }, "the worker failed; the job is tried again");
