import { homedir } from "node:os";
import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import { isFinal } from "../contract/job.ts";
import { createInstanceLease, type InstanceLease } from "../jobs/instance-lease.ts";
import { createLocalQueue } from "../jobs/local-queue.ts";
import { createPresence, type Presence } from "../jobs/presence.ts";
import type { Queue } from "../jobs/queue.ts";
import { createNotifier, type Notifier } from "../lib/notifier.ts";
import type { Log } from "../lib/log.ts";
import { identify } from "../lib/process/identity.ts";
import { createEventBus, eventBusFormat } from "../store/event-bus.ts";
import { createEventLog, eventLogFormat, type EventLog } from "../store/event-log.ts";
import { openFilesRecords } from "../store/files-records.ts";
import { createLocalInstances, type Instances } from "../store/instances.ts";
import { createJobStore, jobKind, type JobStore } from "../store/job-store.ts";
import { createLocalLogs } from "../store/local-logs.ts";
import { createLocalLocks, type Locks } from "../store/locks.ts";
import { createRedisInstances } from "../store/redis-instances.ts";
import { createRedisLocks } from "../store/redis-leases.ts";
import type { OpenRecords } from "../store/records.ts";
import { createRedisLogs } from "../store/redis-logs.ts";
import { openRedisRecords } from "../store/redis-records.ts";
import { createWorktreeStore, worktreeKind, type WorktreeStore } from "../store/worktree-store.ts";
import { openAgentStores, type AgentStores } from "./agent-stores.ts";

/** What the service keeps, and how its instances know of each other. */
export type Stores = {
  jobs: JobStore;
  worktrees: WorktreeStore;
  events: EventLog;
  queue: Queue;
  /** Rung with its id when a job has ended. */
  jobEnds: Notifier;
  locks: Locks;
  instances: Instances;
  /** The lease by which this instance has its name. */
  lease: InstanceLease;
  presence: Presence;
  /** Whether an instance of that name is there; alone, all that was done here was done by this one. */
  isLiving: (podName: string) => boolean;
  /** What agent mode keeps; null: it is off. */
  agentMode: AgentStores | null;
  /** Whether other instances share all this. */
  shared: boolean;
  /** The time that all instances go by. */
  now: () => Date;
  close: () => Promise<void>;
};

type Request = {
  settings: Settings;
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
  const open: OpenRecords = (kind, directory) => openFilesRecords(kind, { directory, now, log });
  const jobs = createJobStore(await open(jobKind(null), jobsDir), null);
  const worktrees = createWorktreeStore(await open(worktreeKind, join(jobsDir, "worktrees")));
  const events = createEventLog({
    logs: createLocalLogs(eventLogFormat, { directory: join(jobsDir, "events"), now }),
    maxBytes: settings.eventLogMaxBytes,
    ttlSeconds: settings.jobTtl,
    describe: describer(jobs, () => true),
    log,
    now,
  });
  const bus = createEventBus({ logs: createLocalLogs(eventBusFormat, { directory: null, now }), log });
  const agentMode = settings.agentMode
    ? await openAgentStores({ open, settings, home: homedir(), bus })
    : null;
  const instances = createLocalInstances();
  return {
    jobs,
    worktrees,
    events,
    queue: createLocalQueue({ concurrency: settings.maxParallelJobs, onError: failedWorker(log) }),
    jobEnds: createNotifier(),
    locks: createLocalLocks(),
    ...membersOf(instances, settings, () => Number.NEGATIVE_INFINITY),
    isLiving: () => true,
    agentMode,
    shared: false,
    now,
    close: async () => {
      await agentMode?.bus.close();
      await events.close();
      await jobs.close();
      await worktrees.close();
    },
  };
};

const openShared = async ({ settings, epoch, log }: Request, url: string): Promise<Stores> => {
  const { podName, instanceLease: leaseSeconds } = settings;
  // Loading the clients of Redis and BullMQ is a good part of a start: a service with files does without.
  const [{ createBullQueue }, { connectKv }, { createRedisNotifier }] = await Promise.all([
    import("../jobs/bullmq-queue.ts"),
    import("../kv/connect.ts"),
    import("../kv/redis-notifier.ts"),
  ]);
  const kv = await connectKv({ url, prefix: settings.kvKeyPrefix, log });
  const { now } = kv;
  const open: OpenRecords = async (kind) => openRedisRecords(kind, { kv, now, log });
  const jobs = createJobStore(await open(jobKind(podName), ""), podName);
  const worktrees = createWorktreeStore(await open(worktreeKind, ""));
  const notifier = createRedisNotifier({ kv, log });
  const self = await identify(process.pid);
  const instances = createRedisInstances({ kv, name: podName, self, leaseSeconds, log });
  const members = membersOf(instances, settings, kv.backSince);
  const { isLiving } = members.presence;
  const events = createEventLog({
    logs: createRedisLogs(eventLogFormat, { kv, notifier }),
    maxBytes: settings.kvEventLogMaxBytes,
    ttlSeconds: settings.jobTtl,
    describe: describer(jobs, isLiving),
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
  const bus = createEventBus({ logs: createRedisLogs(eventBusFormat, { kv, notifier }), log });
  const agentMode = settings.agentMode
    ? await openAgentStores({ open, settings, home: homedir(), bus })
    : null;
  return {
    jobs,
    worktrees,
    events,
    queue,
    jobEnds: notifier,
    locks,
    ...members,
    isLiving,
    agentMode,
    shared: true,
    now,
    close: async () => {
      await agentMode?.bus.close();
      await queue.close();
      await events.close();
      await locks.close();
      await notifier.close();
      await kv.close();
    },
  };
};

/** Who shares the store; `backSince`: when it last came back after it had been away, ms of `performance.now()`. */
const membersOf = (instances: Instances, settings: Settings, backSince: () => number) => {
  const lease = createInstanceLease(instances, settings.instanceLease);
  const { renewingSince } = lease;
  return { instances, lease, presence: createPresence({ instances, settings, backSince, renewingSince }) };
};

/** What the event log asks of a job's record. */
const describer =
  (jobs: Pick<JobStore, "get">, isLiving: (podName: string) => boolean) => async (id: string) => {
    const record = await jobs.get(id);
    if (record === null) return null;
    const { created_at: createdAt, status, unsettled, pod_name } = record;
    // Nothing more happens to a job that has ended and is cleaned up after, or that nobody is left to clean up after.
    const over = isFinal(status) && (!unsettled || (pod_name !== null && !isLiving(pod_name)));
    return { createdAt, over };
  };

const failedWorker =
  (log: Log) =>
  (err: unknown, job: string): void =>
    log.error({ err, job }, "the worker failed; the job is tried again");
