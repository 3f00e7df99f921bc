import { createRunCommand } from "../agents/command.ts";
import { createEnvironments } from "../place/environments.ts";
import { createWarm } from "../place/warm.ts";
import { createSetup } from "../place/setup.ts";
import { createChecks } from "../runner/checks.ts";
import { randomBytes, randomUUID } from "node:crypto";
import { homedir } from "node:os";
import { join } from "node:path";
import { createClaudeAgent } from "../agents/claude/claude.ts";
import type { TelemetryReceiver } from "../agents/claude/routes.ts";
import type { ObserveTurn } from "../chat/engine.ts";
import { credentialDigest, hasOtherKey, modelProblem, usualAtLimit } from "../config/model-credential.ts";
import { secretValues } from "../config/secrets.ts";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import { createJobs } from "../jobs/jobs.ts";
import { createMessages } from "../jobs/messages.ts";
import { queueWaiting, recover } from "../jobs/recovery.ts";
import { applyRetention } from "../jobs/retention.ts";
import { openOutcomeSpool } from "../jobs/outcomes.ts";
import { createSubmit } from "../jobs/submit.ts";
import { createWorker } from "../jobs/worker.ts";
import { createLog } from "../lib/log.ts";
import { instanceMarker, instanceVariable, jobMarker } from "../lib/process/marker.ts";
import { killOrphans } from "../lib/process/orphans.ts";
import { createRedactor } from "../lib/redact.ts";
import { createRetries } from "../lib/retries.ts";
import { transcriptRoot } from "../profiles/materialise.ts";
import { requireSigningKey } from "../repos/signing.ts";
import { createRunner } from "../runner/runner.ts";
import { boundaryOf } from "../profiles/sandbox-policy.ts";
import { createSecrets } from "../secrets/secrets.ts";
import { createSandbox } from "../sandbox/sandbox.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { UnsettledRun } from "../store/job-store.ts";
import { createBudgets } from "../telemetry/budgets.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { createDisks } from "../worktrees/disk.ts";
import { createWorktrees } from "../worktrees/worktrees.ts";
import { openAgentMode } from "./agent-mode.ts";
import { createBookings } from "./bookings.ts";
import { createCluster, createInstancesView } from "./cluster.ts";
import type { ServiceContext } from "./context.ts";
import { withCosts } from "./costs.ts";
import { openDoors, publicAddress } from "./doors.ts";
import { finish } from "./drain.ts";
import { createHandlers, createTaskCheck } from "./handlers.ts";
import { instanceMark, lockDirectories, onLoopback, stateDirectory } from "./instance-lock.ts";
import { keepModes } from "./modes.ts";
import { createReadiness } from "./readiness.ts";
import { startRetention } from "./retention.ts";
import { openSources } from "./sources.ts";
import { startWarnings } from "./start-warnings.ts";
import { openStores } from "./stores.ts";
import { openTelemetry } from "./telemetry.ts";
import { openTracing } from "./tracing.ts";
import { service, version } from "./version.ts";

type Start = { settings: Settings; warnings: string[]; env: NodeJS.ProcessEnv };

/** The composition root of the job orchestrator: reading it shows the system. */
export const startOrchestrator = async ({ settings, warnings, env: given }: Start) => {
  // No text ends in `~`: masking holds back an end of a text that may be the beginning of a secret.
  const telemetryToken = `~${randomBytes(32).toString("hex")}`;
  const redact = createRedactor([...secretValues(settings, given), telemetryToken]);
  const log = createLog(settings.logLevel, redact, settings.logFormat);
  for (const warning of warnings) log.warn(warning);
  const closing = new AbortController();
  const ending = new AbortController();
  const mustEnd = new AbortController();
  // Closed in reverse, also when the service cannot start: nothing may keep the process alive then.
  await using starting = new AsyncDisposableStack();

  await requireSigningKey(settings.gitSigningKey, given);
  const directory = stateDirectory(settings);
  const lock = await lockDirectories(directory, settings.worktreeRoot, closing.signal);
  starting.defer(lock.release);
  const mark = await instanceMark(directory);
  // First, because this start's own processes will carry the same mark.
  await killOrphans(null, instanceMarker(mark), { graceSeconds: orphanGrace });
  const self = { podName: settings.podName, epoch: randomUUID(), startedAt: new Date(), version };
  const stores = await openStores({ settings, epoch: self.epoch, log });
  starting.defer(stores.close);
  const { jobs: store, events, queue, jobEnds, shared, now } = stores;
  const env = { ...given, [instanceVariable]: mark };
  const { signal } = closing;
  const context: ServiceContext = { settings, env, now, newId: randomUUID, redact, log, signal };
  const { reserved } = boundaryOf(settings, homedir());
  const { sandbox, warning: sandboxWarning } = await createSandbox(settings.agentSandbox, { reserved, mark });
  if (sandboxWarning !== null) log.warn(sandboxWarning);
  const { repos, companions, profiles } = await openSources(context, stores, sandbox);
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
  const telemetry = openTelemetry(context, { directory, dropped: dropped("records") });
  starting.defer(telemetry.close);
  const bookings = createBookings({
    ...context,
    store,
    telemetry,
    // Instances that share a store, and have a SQLite file each, do not share their costs.
    isOurs: ({ pod_name }) =>
      !shared || settings.telemetryDb !== null || (pod_name ?? self.podName) === self.podName,
    dropped: dropped("turns"),
  });
  starting.defer(bookings.close);
  const tracing = await openTracing({ ...context, events, dropped: dropped("spans") });
  starting.defer(async () => await tracing?.close());
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
  const budgets = createBudgets({ ...context, telemetry });
  /** What every request that starts an agent needs. Throws a `ServiceError`. */
  const requireAgent: typeof budgets.require = async (asked) => {
    const problem = modelProblem(settings);
    if (problem !== null) throw new ServiceError("no_model_credential", problem, { retryAfter: 60 });
    await budgets.require(asked);
  };

  /** What is known late: the address of this service, once it listens. */
  let receiver: TelemetryReceiver | null = null;
  let origins: string[] = [];
  const claude = createClaudeAgent({
    settings,
    env,
    redact,
    sandbox,
    receiver: () => receiver,
    origins: () => origins,
  });
  const agent = withCosts(claude, { telemetry, budgets, log });
  const credential = {
    digest: credentialDigest(settings),
    hasOtherKey: hasOtherKey(settings),
    usualAtLimit: usualAtLimit(settings),
    canChange: async ({ profile }: JobRecord): Promise<boolean> =>
      hasOtherKey(settings) && (await profiles.pin(profile).catch(() => null))?.onLimit === "api_key",
  };
  const environments = createEnvironments({
    root: join(settings.worktreeRoot, ".environments"),
    requireRoom: (bytes) => disks.requireRoom(bytes, "worktrees"),
    maxBytes: settings.envCacheBytes,
    mark,
    log,
    signal,
  });
  starting.defer(environments.idle);
  await environments
    .start()
    .catch((err: unknown) => log.warn({ err }, "warm environments were not tidied up"));
  const isSandboxed = sandbox.mode !== "off";
  const secrets = createSecrets({ ...context, store: stores.secrets, isSandboxed });
  void secrets.maskAll();
  const runCommand = createRunCommand({ settings, env, redact, sandbox });
  const runner = createRunner({
    ...context,
    profiles,
    repos,
    taskFiles: stores.taskFiles,
    keptFiles: stores.keptFiles,
    checks: createChecks({ repos, runCommand, baseChecks: stores.baseChecks }),
    setup: createSetup({
      repos,
      runCommand,
      warm: createWarm({
        repos,
        environments,
        ownHome: sandbox.mode === "bwrap" ? settings.agentHome : null,
      }),
      requireRoom: disks.requireRoom,
      isSandboxed,
      settings,
    }),
    secrets,
    isOwnBranch: async (url, branch) =>
      (await store.hasBranch(url, branch)) || (await repos.hasWorktreeOn(url, branch)),
    agent,
    isTaken: async (sessionId) => (await store.findBySession(sessionId)) !== null,
    credential,
    instance: mark,
    orphanGrace,
    salvageTimeout: 60,
    sandboxWarning,
  });
  const settling = { store, events, queue, jobEnds, onEnded, now, log };
  const spool = await openOutcomeSpool(join(directory, "spool"), log);
  const worker = createWorker({
    ...context,
    ...settling,
    locks: stores.locks,
    spool,
    execute: runner.execute,
    instance: self,
    credential,
  });
  const cluster = createCluster({
    ...context,
    stores,
    worker,
    onEnded,
    self,
    credential,
    ending: ending.signal,
    onSuperseded: (error) => mustEnd.abort(error),
  });
  const admit = async (): Promise<void> => {
    cluster.requireOpen();
    await disks.requireRoom();
  };
  const jobs = createJobs({ ...settling, interrupt: cluster.interrupt });
  const worktrees = createWorktrees({
    ...context,
    records: stores.worktrees,
    jobs: store,
    repos,
    endJob: jobs.end,
    locks: stores.locks,
    endOrphans: async (id) => {
      await killOrphans(null, jobMarker(id, mark), { graceSeconds: orphanGrace });
    },
    isAlive: cluster.isAlive,
    admit,
    settings: { ...settings, shared },
    closing: signal,
  });
  const submit = createSubmit({
    ...context,
    store,
    queue,
    check: createTaskCheck({ repos, profiles, requireAgent, secrets }),
    taskFiles: stores.taskFiles,
    admit,
    joinWorktree: worktrees.join,
    instanceWith: cluster.instanceWith,
  });
  const messages = createMessages({ ...context, store, jobEnds, get: jobs.get, submit });
  const agentMode = await openAgentMode({
    ...context,
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
  });
  for (const warning of await startWarnings(context, profiles)) log.warn(warning);
  const chat = agentMode?.counts ?? (() => null);
  metrics.watch({ running: worker.runningCount, chat });

  await cluster.join();
  starting.defer(cluster.stop);
  const modes = starting.use(await keepModes(settings, { directory, home: homedir(), log }));
  const doors = await openDoors({
    ...context,
    handlers: createHandlers({
      stores,
      jobs,
      submit,
      messages,
      profiles,
      companions,
      worktrees,
      disks,
      secrets,
      environments,
      instances: view,
      telemetry,
      budgets,
      settings,
      agentMode,
    }),
    agentMode,
    events,
    changes: stores.changes,
    openFile: stores.keptFiles.open,
    readiness: createReadiness({
      store,
      disks,
      credentialProblem: () => modelProblem(settings),
      sandbox: { mode: sandbox.mode, warning: sandboxWarning },
      modesProblem: modes.problem,
      companions: companions.states,
      isDraining: cluster.isDraining,
      closing: ending.signal,
    }),
    metrics: metrics.read,
    receiver: settings.otelEnabled ? { token: telemetryToken, store: telemetry.append } : null,
    service,
    newRequestId: randomUUID,
    closing: signal,
  });
  starting.defer(() => doors.close(5000));
  if (doors.otlpUrl !== null) receiver = { endpoint: doors.otlpUrl, token: telemetryToken };
  const { url, answer } = doors;
  origins = [url === null ? null : onLoopback(url), settings.address].flatMap((each) =>
    each === null ? [] : [new URL(each).origin],
  );
  lock.publish(url);

  const wasOwn = ({ podName, epoch }: UnsettledRun): boolean =>
    epoch !== self.epoch && (!shared || podName === self.podName);
  const recovered = recover({
    ...settling,
    spool,
    settleLost: runner.settleLost,
    wasOwn,
    afterwards: [
      async () => shared || (await queueWaiting(settling)),
      async () => queue.start(worker.work),
      worktrees.recover,
    ],
    signal: ending.signal,
  });
  cluster.start(() => chat()?.turns ?? 0, publicAddress(settings, url));
  const retries = createRetries();
  // Each round asks the store.
  const retention = startRetention(context, shared ? 15_000 : 1000, async (aborted, isSure) => {
    if (!isSure) return;
    const round = {
      ...settling,
      worktreeTtl: settings.worktreeTtl,
      removeWorktree: worktrees.release,
      removeConfig: runner.removeConfig,
      book: bookings.bookJob,
      lockWorktree: worktrees.lock,
      locationOf: cluster.locationOf,
      retries,
    };
    await applyRetention(round, aborted);
    await worktrees.applyRetention(aborted);
  });
  agentMode?.start();
  const kept = shared ? "in the key-value store" : settings.jobsDir;
  const transcripts = transcriptRoot({ home: homedir(), sharedFsRoot: settings.sharedFsRoot });
  const facing = url === null ? "serving on stdin and stdout" : "listening";
  log.info({ url, version, instance: self.podName, jobs: kept, transcripts }, facing);

  const opened = starting.move();
  return {
    /** URL of the service; null: only on stdin and stdout. */
    url,
    /** Answers the client on stdin and stdout; null: there is none. */
    answer,
    /** Aborted when it must end by itself: its client on stdin has left, or (reason: an Error) it may not continue. */
    mustEnd: mustEnd.signal,
    /**
     * Accepts no more work, ends what runs (its work is saved), closes. Resolves when nothing is left. With
     * `drainSeconds`, work gets so long to finish by itself, unless `hurry` is aborted.
     */
    stop: async ({ drainSeconds, hurry } = { drainSeconds: 0, hurry: signal }): Promise<void> => {
      ending.abort();
      queue.stop();
      worker.park(true);
      await recovered;
      await finish({ worker, agentMode, log }, drainSeconds, [hurry, mustEnd.signal]);
      closing.abort();
      await companions.stop();
      await agentMode?.stop();
      await worker.stop();
      await retention.stop();
      await worktrees.settled();
      await opened.disposeAsync();
    },
  };
};

export type Orchestrator = Awaited<ReturnType<typeof startOrchestrator>>;

/** Seconds between SIGTERM and SIGKILL for orphans of an earlier start; short, since nothing reads their answer. */
const orphanGrace = 1;
