import { homedir } from "node:os";
import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import { isFinal } from "../contract/job.ts";
import type { ReadChanges } from "../http/changes-route.ts";
import { announcing, createJobChanges } from "../jobs/changes.ts";
import { createInstanceLease, type InstanceLease } from "../jobs/membership.ts";
import { createLocalQueue } from "../jobs/local-queue.ts";
import { createPresence, type Presence } from "../jobs/presence.ts";
import type { Queue } from "../jobs/queue.ts";
import { createNotifier, type Notifier } from "../lib/notifier.ts";
import type { Log } from "../lib/log.ts";
import { identify } from "../lib/process/identity.ts";
import { createEventBus, eventBusFormat, type EventBus } from "../store/event-bus.ts";
import { createEventLog, eventLogFormat, type EventLog } from "../store/event-log.ts";
import { inFiles, inKv, keepMarked, requireFormat } from "../store/format.ts";
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
import { completionKind, createCompletionStore, type CompletionStore } from "../store/completion-store.ts";
import {
  conversationKind,
  createConversationStore,
  type ConversationStore,
} from "../store/conversation-store.ts";
import { createTaskFiles, taskFilesKind, type TaskFiles } from "../store/task-files.ts";
import { createVisibilityStore, visibilityKind, type VisibilityStore } from "../store/visibility-store.ts";

/** The stores, and how instances find each other. */
export type Stores = {
  jobs: JobStore;
  worktrees: WorktreeStore;
  taskFiles: TaskFiles;
  events: EventLog;
  queue: Queue;
  /** Notified with its id when a job has ended, and of each change of one: see `jobs/changes.ts`. */
  jobEnds: Notifier;
  changes: ReadChanges;
  locks: Locks;
  instances: Instances;
  /** The lease on this instance's name. */
  lease: InstanceLease;
  presence: Presence;
  /** Whether an instance of that name is alive; a single instance has done everything itself. */
  isLiving: (podName: string) => boolean;
  /** The stores of agent mode; null: it is off. */
  agentMode: AgentStores | null;
  /** Whether other instances share them. */
  shared: boolean;
  /** The clock that all instances use. */
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
  await requireFormat(inFiles(jobsDir), { mark: true });
  const now = (): Date => new Date();
  const open: OpenRecords = (kind, directory) => openFilesRecords(kind, { directory, now, log });
  const jobEnds = createNotifier();
  const jobs = announcing(createJobStore(await open(jobKind(null), jobsDir), null), jobEnds);
  const worktrees = createWorktreeStore(await open(worktreeKind, join(jobsDir, "worktrees")));
  const taskFiles = createTaskFiles(await open(taskFilesKind, join(jobsDir, "files")));
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
    taskFiles,
    events,
    queue: createLocalQueue({ concurrency: settings.maxParallelJobs, onError: failedWorker(log) }),
    jobEnds,
    changes: createJobChanges({ store: jobs, notifier: jobEnds }),
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
  // Loaded on demand: the clients of Redis and BullMQ are a good part of a start.
  const [{ createBullQueue }, { connectKv }, { createRedisNotifier }] = await Promise.all([
    import("../jobs/bullmq-queue.ts"),
    import("../kv/connect.ts"),
    import("../kv/redis-notifier.ts"),
  ]);
  const kv = await connectKv({ url, prefix: settings.kvKeyPrefix, log });
  await requireFormat(inKv(kv), { mark: true }).catch(async (error: unknown) => {
    await kv.close();
    throw error;
  });
  const stopMarking = keepMarked(kv);
  const { now } = kv;
  const open: OpenRecords = async (kind) => openRedisRecords(kind, { kv, now, log });
  const notifier = createRedisNotifier({ kv, log });
  const jobs = announcing(createJobStore(await open(jobKind(podName), ""), podName), notifier);
  const worktrees = createWorktreeStore(await open(worktreeKind, ""));
  const taskFiles = createTaskFiles(await open(taskFilesKind, ""));
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
    taskFiles,
    events,
    queue,
    jobEnds: notifier,
    changes: createJobChanges({ store: jobs, notifier }),
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
      stopMarking();
      await kv.close();
    },
  };
};

/** The members of the fleet; `backSince`: when the store last became reachable again, ms of `performance.now()`. */
const membersOf = (instances: Instances, settings: Settings, backSince: () => number) => {
  const lease = createInstanceLease(instances, settings.instanceLease);
  const { renewingSince } = lease;
  return { instances, lease, presence: createPresence({ instances, settings, backSince, renewingSince }) };
};

/** What the event log needs of a job's record. */
const describer =
  (jobs: Pick<JobStore, "get">, isLiving: (podName: string) => boolean) => async (id: string) => {
    const record = await jobs.get(id);
    if (record === null) return null;
    const { created_at: createdAt, status, unsettled, pod_name } = record;
    // A job that has ended gets no more events once it is cleaned up, or its instance is lost.
    const over = isFinal(status) && (!unsettled || (pod_name !== null && !isLiving(pod_name)));
    return { createdAt, over };
  };

const failedWorker =
  (log: Log) =>
  (err: unknown, job: string): void =>
    log.error({ err, job }, "the worker failed; the job is tried again");

/** The stores of agent mode. */
type AgentStores = {
  conversations: ConversationStore;
  completions: CompletionStore;
  visibilities: VisibilityStore;
  bus: EventBus;
};

type AgentRequest = { open: OpenRecords; settings: Settings; home: string; bus: EventBus };

const openAgentStores = async ({ open, settings, home, bus }: AgentRequest): Promise<AgentStores> => {
  const { jobsDir, agentModeConversationTtl, jobTtl } = settings;
  const conversations = await open(
    conversationKind(agentModeConversationTtl),
    join(jobsDir, "conversations"),
  );
  const completions = await open(completionKind(jobTtl), join(jobsDir, "completions"));
  const visibilities = await open(visibilityKind, join(home, ".service", "stream_config"));
  return {
    conversations: createConversationStore(conversations),
    completions: createCompletionStore(completions),
    visibilities: createVisibilityStore(visibilities),
    bus,
  };
};
