import { homedir } from "node:os";
import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import { isFinal } from "../contract/job.ts";
import { announcing, createJobChanges } from "../jobs/changes.ts";
import { announceEnd } from "../jobs/settle.ts";
import { createPresence } from "../jobs/membership.ts";
import { createLocalQueue } from "../jobs/local-queue.ts";
import type { Queue } from "../jobs/queue.ts";
import type { Restore } from "../kv/kv.ts";
import { createNotifier, type Notifier } from "../lib/notifier.ts";
import type { Log } from "../lib/log.ts";
import { identify } from "../lib/process/identity.ts";
import { createEventBus, eventBusLog } from "../store/event-bus.ts";
import { createEventLog, eventLogName } from "../store/event-log.ts";
import { inFiles, inKv, keepMarked, requireFormat } from "../store/format.ts";
import { openFilesRecords } from "../store/files-records.ts";
import { createLocalInstances, createRedisInstances, type Instances } from "../store/instances.ts";
import { createJobStore, jobKind } from "../store/job-store.ts";
import { createFileLogs, createMemoryLogs } from "../store/local-logs.ts";
import type { Logs } from "../store/logs.ts";
import { createLocalLocks, type Locks } from "../store/locks.ts";
import { createRedisLocks } from "../store/redis-leases.ts";
import { openRecentJobs } from "../store/recent-jobs.ts";
import type { OpenRecords } from "../store/records.ts";
import { createRedisLogs } from "../store/redis-logs.ts";
import { openRedisRecords } from "../store/redis-records.ts";
import { createWorktreeStore, worktreeKind } from "../store/worktree-store.ts";
import { completionKind, createCompletionStore } from "../store/completion-store.ts";
import { conversationKind, createConversationStore } from "../store/conversation-store.ts";
import { baseCheckKind, createBaseChecks } from "../store/base-checks.ts";
import { createKeptFiles } from "../store/kept-files.ts";
import { createSecretStore, secretKind } from "../store/secret-store.ts";
import { createTaskFiles, taskFilesKind } from "../store/task-files.ts";
import { createVisibilityStore, visibilityKind } from "../store/visibility-store.ts";
import { stateDirectory } from "./instance-lock.ts";

type Request = {
  settings: Settings;
  /** This start of the instance. */
  epoch: string;
  log: Log;
};

/** The stores, and how instances find each other. */
export type Stores = Awaited<ReturnType<typeof openStores>>;

/** What differs between files and the key-value store. */
type Backend = {
  queue: Queue;
  locks: Locks;
  instances: Instances;
  /** Whether other instances share the stores. */
  shared: boolean;
  /** The clock that all instances use. */
  now: () => Date;
  /** The instance that its jobs name; null: there is one only. */
  podName: string | null;
  open: OpenRecords;
  eventLogs: Logs;
  /** The logs of the bus: in memory, or in the key-value store. */
  busLogs: Logs;
  maxEventBytes: number;
  /** Notified with its id when a job has ended, and of each change of one: see `jobs/changes.ts`. */
  notifier: Notifier;
  /** When the store last became reachable again, ms of `performance.now()`. */
  backSince: () => number;
  /** See `Kv`: with a way to open records for `restore`. */
  onReplaced: (restore: (open: OpenRecords, ...given: Parameters<Restore>) => Promise<void>) => void;
  close: () => Promise<void>;
};

/** In files, or in the key-value store that `KV_URL` names. */
export const openStores = async (request: Request) => {
  const { settings, log } = request;
  const { jobsDir, jobTtl, kvUrl } = settings;
  const backend = kvUrl === null ? await openFiles(request) : await openShared(request, kvUrl);
  const { podName, open, notifier, now } = backend;
  const presence = createPresence({ ...backend, settings });
  // A single instance has done everything itself.
  const isLiving = backend.shared ? presence.isLiving : () => true;
  const directory = join(stateDirectory(settings), "recent");
  const recent = backend.shared ? await openRecentJobs({ directory, now, log }) : null;
  const openJobs = async (from: OpenRecords) =>
    createJobStore(await from(jobKind(podName), jobsDir), podName);
  const jobs = announcing(await openJobs(open), notifier, recent?.note);
  const worktrees = createWorktreeStore(await open(worktreeKind, join(jobsDir, "worktrees")));
  const taskFiles = createTaskFiles(await open(taskFilesKind, join(jobsDir, "files")));
  const baseChecks = createBaseChecks(await open(baseCheckKind, join(jobsDir, "checks")), now);
  const secrets = createSecretStore(await open(secretKind, join(jobsDir, "secrets")));
  /** What the event log needs of a job's record; null: there is none. */
  const describe = async (id: string) => {
    const record = await jobs.get(id);
    if (record === null) return null;
    const { created_at: createdAt, status, unsettled, pod_name } = record;
    // A job that has ended gets no more events once it is cleaned up, or its instance is lost.
    const over = isFinal(status) && (!unsettled || (pod_name !== null && !isLiving(pod_name)));
    return { createdAt, over };
  };
  const events = createEventLog({
    logs: backend.eventLogs,
    maxBytes: backend.maxEventBytes,
    ttlSeconds: jobTtl,
    describe,
    log,
    now,
  });
  const bus = createEventBus({ logs: backend.busLogs, now, log });
  backend.onReplaced(async (openNow, ask, server) => {
    const announced = announcing(await openJobs(openNow), notifier);
    for (const record of (await recent?.replay(announced)) ?? [])
      if (isFinal(record.status) && !record.unsettled)
        announceEnd({ events, jobEnds: notifier, onEnded: () => undefined }, record);
    await backend.instances.gather(presence.names(), server, ask);
  });
  return {
    ...backend,
    jobs,
    worktrees,
    taskFiles,
    keptFiles: createKeptFiles(join(jobsDir, "out")),
    baseChecks,
    secrets,
    events,
    jobEnds: notifier,
    changes: createJobChanges({ store: jobs, notifier }),
    presence,
    /** Whether an instance of that name is alive. */
    isLiving,
    /** Null: it is off. */
    agentMode: settings.agentMode ? { ...(await openAgentStores(settings, open)), bus } : null,
    close: async (): Promise<void> => {
      await bus.close();
      await backend.queue.close();
      await events.close();
      await jobs.close();
      await worktrees.close();
      await backend.locks.close();
      await backend.close();
    },
  };
};

const openFiles = async ({ settings, log }: Request): Promise<Backend> => {
  await requireFormat(inFiles(settings.jobsDir), { mark: true });
  const now = (): Date => new Date();
  return {
    shared: false,
    podName: null,
    now,
    open: (kind, directory) => openFilesRecords(kind, { directory, now, log }),
    eventLogs: createFileLogs(join(settings.jobsDir, "events")),
    busLogs: createMemoryLogs({ ...eventBusLog, now }),
    maxEventBytes: settings.eventLogMaxBytes,
    notifier: createNotifier(),
    queue: createLocalQueue({ concurrency: settings.maxParallelJobs, onError: failedWorker(log) }),
    locks: createLocalLocks(),
    instances: createLocalInstances(),
    backSince: () => Number.NEGATIVE_INFINITY,
    onReplaced: () => undefined,
    close: async () => undefined,
  };
};

const openShared = async ({ settings, epoch, log }: Request, url: string): Promise<Backend> => {
  const { podName, instanceLease: leaseSeconds } = settings;
  // Loaded on demand: the clients of Redis and BullMQ are a good part of a start.
  const [{ createBullQueue }, { connectKv }, { createRedisNotifier }] = await Promise.all([
    import("../jobs/bullmq-queue.ts"),
    import("../kv/connect.ts"),
    import("../kv/redis-notifier.ts"),
  ]);
  const kv = await connectKv({ url, optionsFile: settings.kvOptionsFile, prefix: settings.kvKeyPrefix, log });
  await requireFormat(inKv(kv), { mark: true }).catch(async (error: unknown) => {
    await kv.close();
    throw error;
  });
  const stopMarking = keepMarked(kv);
  const { now, backSince } = kv;
  const notifier = createRedisNotifier({ kv, log });
  const self = await identify(process.pid);
  return {
    shared: true,
    podName,
    now,
    open: async (kind) => openRedisRecords(kind, { kv, now, log }),
    eventLogs: createRedisLogs({ kv, notifier, name: eventLogName, maxEntries: Number.MAX_SAFE_INTEGER }),
    busLogs: createRedisLogs({ kv, notifier, ...eventBusLog }),
    maxEventBytes: settings.kvEventLogMaxBytes,
    notifier,
    queue: createBullQueue({
      kv,
      podName,
      concurrency: settings.maxParallelJobs,
      lockSeconds: leaseSeconds,
      onError: failedWorker(log),
      log,
    }),
    locks: createRedisLocks({ kv, leaseSeconds, owner: { podName, epoch } }),
    instances: createRedisInstances({ kv, name: podName, self, leaseSeconds, log }),
    backSince,
    onReplaced: (restore) =>
      kv.onReplaced((ask, server) =>
        restore(async (kind) => openRedisRecords(kind, { kv: { ...kv, ask }, now, log }), ask, server),
      ),
    close: async () => {
      await notifier.close();
      stopMarking();
      await kv.close();
    },
  };
};

const failedWorker =
  (log: Log) =>
  (err: unknown, job: string): void =>
    log.error({ err, job }, "the worker failed; the job is tried again");

const openAgentStores = async (
  { jobsDir, jobTtl, agentModeConversationTtl }: Settings,
  open: OpenRecords,
) => {
  const conversations = conversationKind(agentModeConversationTtl);
  const visibilities = join(homedir(), ".service", "stream_config");
  return {
    conversations: createConversationStore(await open(conversations, join(jobsDir, "conversations"))),
    completions: createCompletionStore(await open(completionKind(jobTtl), join(jobsDir, "completions"))),
    visibilities: createVisibilityStore(await open(visibilityKind, visibilities)),
  };
};
