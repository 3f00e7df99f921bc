import { randomBytes, randomUUID } from "node:crypto";
import { homedir } from "node:os";
import { join } from "node:path";
import { createClaudeAgent } from "../agents/claude/claude.ts";
import type { ObserveTurn } from "../chat/engine.ts";
import { modelProblem } from "../config/model-credential.ts";
import { secretValues } from "../config/secrets.ts";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import { createJobs } from "../jobs/jobs.ts";
import { queueWaiting, recover } from "../jobs/recovery.ts";
import { openOutcomeSpool } from "../jobs/outcomes.ts";
import { createSubmit } from "../jobs/submit.ts";
import { createWorker } from "../jobs/worker.ts";
import { createLog } from "../lib/log.ts";
import { instanceMarker, instanceVariable, jobMarker } from "../lib/process/marker.ts";
import { killOrphans } from "../lib/process/orphans.ts";
import { createRedactor } from "../lib/redact.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { transcriptRoot } from "../profiles/materialise.ts";
import { createRunner } from "../runner/runner.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { UnsettledRun } from "../store/job-store.ts";
import { createBudgets } from "../telemetry/budgets.ts";
import type { Answer } from "../mcp/answer.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { createDisks } from "../worktrees/disk.ts";
import { createWorktrees } from "../worktrees/worktrees.ts";
import { openAgentMode } from "./agent-mode.ts";
import { createBookings } from "./bookings.ts";
import { createTaskCheck, createHandlers } from "./handlers.ts";
import { withCosts } from "./costs.ts";
import { createCluster, createInstancesView } from "./cluster.ts";
import { openDoors, publicAddress } from "./doors.ts";
import { lockDirectories, instanceMark, stateDirectory } from "./instance-lock.ts";
import { createReadiness } from "./readiness.ts";
import { finish } from "./drain.ts";
import { startRetention } from "./retention.ts";
import { openSources } from "./sources.ts";
import { startWarnings } from "./start-warnings.ts";
import { openStores } from "./stores.ts";
import { openTelemetry } from "./telemetry.ts";
import { openTracing } from "./tracing.ts";
import { service, version } from "./version.ts";

export type Orchestrator = {
  /** URL of the service; null: only on stdin and stdout. */
  url: string | null;
  /** Aborted when it must end by itself: its client on stdin has left, or (reason: an Error) it may not continue. */
  mustEnd: AbortSignal;
  /** Answers the client on stdin and stdout; null: there is none. */
  answer: Answer | null;
  /**
   * Accepts no more work, ends what runs (its work is saved), closes. Resolves when nothing is left. With
   * `drainSeconds`, work gets so long to finish by itself, unless `hurry` is aborted.
   */
  stop: (how?: { drainSeconds: number; hurry: AbortSignal }) => Promise<void>;
};

type Start = { settings: Settings; warnings: string[]; env: NodeJS.ProcessEnv };

/** The composition root of the job orchestrator: reading it shows the system. */
export const startOrchestrator = async (start: Start): Promise<Orchestrator> => {
  const { settings, warnings, env: given } = start;
  // No text ends in `~`: masking holds back an end of a text that may be the beginning of a secret.
  const telemetryToken = `~${randomBytes(32).toString("hex")}`;
  const redact = createRedactor([...secretValues(settings, given), telemetryToken]);
  const log = createLog(settings.logLevel, redact, settings.logFormat);
  for (const warning of warnings) log.warn(warning);
  const closing = new AbortController();
  const ending = new AbortController();
  const mustEnd = new AbortController();
  const directory = stateDirectory(settings);
  const lock = await lockDirectories(directory, settings.worktreeRoot, closing.signal);
  const mark = await instanceMark(directory);
  // First, because this start's own processes will carry the same mark.
  await killOrphans(null, instanceMarker(mark), { graceSeconds: orphanGrace });
  const env = { ...given, [instanceVariable]: mark };
  const self = { podName: settings.podName, epoch: randomUUID(), startedAt: new Date(), version };
  const stores = await openStores({ settings, epoch: self.epoch, log }).catch(async (error: unknown) => {
    await lock.release();
    throw error;
  });
  const { jobs: store, events, queue, jobEnds, now } = stores;
  const { repos, companions, profiles } = await openSources({ settings, env, stores, redact, now, log });
  const disks = createDisks(settings, now);
  const view = createInstancesView({ store, instances: stores.instances, now });
  const metrics = createMetrics({
    jobCounts: store.counts,
    overview: view.overview,
    maxParallel: settings.maxParallelJobs,
    volumes: disks.volumes,
    companions: companions.states,
  });
  const dropped = (what: Parameters<typeof metrics.dropped>[0]) => (count: number) =>
    metrics.dropped(what, count);
  const telemetry = openTelemetry({ settings, directory, redact, dropped: dropped("records"), now, log });
  const imputed = settings.agentOauthToken !== null;
  const bookings = createBookings({
    store,
    telemetry,
    imputed,
    // Instances that share a store, and have a SQLite file each, do not share their costs.
    isOurs: ({ pod_name }) =>
      !stores.shared || settings.telemetryDb !== null || (pod_name ?? self.podName) === self.podName,
    dropped: dropped("turns"),
    now,
    log,
  });

  /** Nothing may keep the process alive when it cannot start. */
  const giveUp = async (error: unknown): Promise<never> => {
    await bookings.close();
    await telemetry.close();
    await stores.close();
    await lock.release();
    throw error;
  };

  /** Known once the doors are open. */
  let receiver: { endpoint: string; token: string } | null = null;
  const claude = createClaudeAgent({ settings, env, redact, receiver: () => receiver });
  const agent = withCosts(claude, { telemetry, log });
  const runner = createRunner({
    profiles,
    repos,
    taskFiles: stores.taskFiles,
    agent,
    newId: randomUUID,
    redact,
    log,
    instance: mark,
    orphanGrace,
    salvageTimeout: 60,
  });

  const tracing = await openTracing({
    settings,
    service,
    events,
    redact,
    dropped: dropped("spans"),
    now,
    log,
  });
  const onEnded = (record: JobRecord): void => {
    metrics.jobEnded(record);
    bookings.jobEnded(record);
    tracing?.jobEnded(record);
  };
  const observeTurn: ObserveTurn = (turn) => {
    const traced = tracing?.observeTurn(turn);
    return {
      event: (event) => traced?.event(event),
      ended: (ended) => {
        bookings.turnEnded(ended);
        traced?.ended(ended);
      },
    };
  };
  const budgets = createBudgets({ settings, telemetry, now, log });
  /** What every request that starts an agent needs. Throws a `ServiceError`. */
  const requireAgent: typeof budgets.require = async (asked) => {
    const problem = modelProblem(settings);
    if (problem !== null) throw new ServiceError("no_model_credential", problem, { retryAfter: 60 });
    await budgets.require(asked);
  };
  const settling = { store, events, queue, jobEnds, onEnded, now, log };
  const spool = await openOutcomeSpool(join(directory, "spool"), log);
  const worker = createWorker({
    ...settling,
    locks: stores.locks,
    spool,
    execute: runner.execute,
    instance: self,
    settings,
    redact,
  });
  const cluster = createCluster({
    stores,
    worker,
    onEnded,
    settings,
    self,
    isEnding: () => ending.signal.aborted,
    onSuperseded: (error) => mustEnd.abort(error),
    now,
    log,
  });
  const admit = async (): Promise<void> => {
    cluster.requireOpen();
    await disks.requireRoom();
  };

  const jobs = createJobs({ ...settling, interrupt: cluster.interrupt });
  const worktrees = createWorktrees({
    records: stores.worktrees,
    jobs: store,
    repos,
    endJob: jobs.end,
    reserve: worker.reserveWorktree,
    endOrphans: async (id) => {
      await killOrphans(null, jobMarker(id, mark), { graceSeconds: orphanGrace });
    },
    isAlive: cluster.isAlive,
    admit,
    mutex: createKeyedMutex(),
    settings: { ...settings, shared: stores.shared },
    now,
    newId: randomUUID,
    redact,
    log,
    closing: closing.signal,
  });

  const submit = createSubmit({
    store,
    queue,
    settings,
    now,
    newId: randomUUID,
    check: createTaskCheck({ repos, profiles, requireAgent }),
    hasTranscript: async (id) => (await profiles.findTranscript(id)) !== null,
    putFiles: stores.taskFiles.put,
    admit,
    joinWorktree: (id, accept) =>
      worktrees.join(id, (named) => accept({ ...named, boundTo: stores.shared ? named.boundTo : null })),
    instanceWith: cluster.instanceWith,
  });

  const agentMode = await openAgentMode({
    settings,
    companions: companions.files,
    cli: agent,
    stores,
    self,
    mark,
    directory,
    isDraining: cluster.isDraining,
    isAlive: cluster.isAlive,
    observeTurn,
    requireAgent,
    now,
    log,
  }).catch(giveUp);
  const user = { root: process.getuid?.() === 0, signal: closing.signal };
  for (const warning of await startWarnings({ settings, env, profiles, ...user })) log.warn(warning);
  const chat = (): { turns: number; processes: number } | null => agentMode?.counts() ?? null;
  metrics.watch({ running: worker.runningCount, chat });
  const facts = await cluster.join(() => chat()?.turns ?? 0).catch(giveUp);
  const doors = await openDoors({
    handlers: createHandlers({
      stores,
      jobs,
      submit,
      profiles,
      companions,
      worktrees,
      disks,
      instances: view,
      telemetry,
      budgets,
      settings,
      agentMode,
    }),
    agentMode,
    events,
    changes: stores.changes,
    settings,
    readiness: createReadiness({
      store,
      disks,
      credentialProblem: () => modelProblem(settings),
      companions: companions.states,
      isDraining: cluster.isDraining,
      closing: ending.signal,
    }),
    metrics: metrics.read,
    receiver: settings.otelEnabled ? { token: telemetryToken, store: telemetry.append } : null,
    service,
    log,
    newRequestId: randomUUID,
    closing: closing.signal,
  }).catch(async (error: unknown) => {
    await cluster.stop();
    return await giveUp(error);
  });
  if (doors.otlpUrl !== null) receiver = { endpoint: doors.otlpUrl, token: telemetryToken };
  const { url, answer } = doors;
  lock.publish(url);

  const wasOurs = ({ podName, epoch }: UnsettledRun): boolean =>
    epoch !== self.epoch && (!stores.shared || podName === settings.podName);
  const recovered = recover({
    ...settling,
    spool,
    settleLost: runner.settleLost,
    wasOwn: wasOurs,
    afterwards: [
      async () => stores.shared || (await queueWaiting({ store, queue })),
      async () => queue.start(worker.work),
      worktrees.recover,
    ],
    signal: ending.signal,
  });
  cluster.start(() => ({ ...facts(), address: publicAddress(settings, url) }));
  const retention = startRetention({
    ...settling,
    worktreeTtl: settings.worktreeTtl,
    shared: stores.shared,
    worktrees,
    removeConfig: runner.removeConfig,
    book: bookings.bookJob,
    reserveWorktree: worker.reserveWorktree,
    locationOf: cluster.locationOf,
  });
  agentMode?.start();
  const kept = stores.shared ? "in the key-value store" : settings.jobsDir;
  const transcripts = transcriptRoot({ home: homedir(), sharedFsRoot: settings.sharedFsRoot });
  const facing = url === null ? "serving on stdin and stdout" : "listening";
  log.info({ url, version, instance: settings.podName, jobs: kept, transcripts }, facing);

  return {
    url,
    answer,
    mustEnd: mustEnd.signal,
    stop: async ({ drainSeconds, hurry } = { drainSeconds: 0, hurry: closing.signal }) => {
      ending.abort();
      queue.stop();
      await recovered;
      await finish({ worker, agentMode, log }, drainSeconds, [hurry, mustEnd.signal]);
      closing.abort();
      await companions.stop();
      await agentMode?.stop();
      await worker.stop();
      await retention.stop();
      await worktrees.settled();
      await doors.close(5000);
      await cluster.stop();
      await tracing?.close();
      await bookings.close();
      await telemetry.close();
      await stores.close();
      await lock.release();
    },
  };
};

/** Seconds between SIGTERM and SIGKILL for orphans of an earlier start; short, since nothing reads their answer. */
const orphanGrace = 1;
