import { randomUUID } from "node:crypto";
import { homedir } from "node:os";
import { join } from "node:path";
import { createClaudeAgent } from "../agents/claude/claude.ts";
import { secretValues } from "../config/secrets.ts";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import { tidy } from "../jobs/housekeeping.ts";
import { createJobs } from "../jobs/jobs.ts";
import { createLocalQueue } from "../jobs/local-queue.ts";
import { recover } from "../jobs/recovery.ts";
import { createWorker } from "../jobs/worker.ts";
import { createBell } from "../lib/bell.ts";
import { createLog } from "../lib/log.ts";
import { killOrphans } from "../lib/process/orphans.ts";
import { createRedactor } from "../lib/redact.ts";
import { createRetries } from "../lib/retries.ts";
import { createTurns } from "../lib/turns.ts";
import { createProfiles } from "../profiles/profiles.ts";
import { createRepos } from "../repos/create.ts";
import { createRunner } from "../runner/runner.ts";
import { openFilesEventLog } from "../store/files/files-event-log.ts";
import { openFilesJobStore } from "../store/files/files-job-store.ts";
import { openFilesWorktreeStore } from "../store/files/files-worktree-store.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { createDisks } from "../worktrees/disk.ts";
import { createWorktrees } from "../worktrees/worktrees.ts";
import { openDoors } from "./doors.ts";
import { createHandlers } from "./handlers.ts";
import { startHousekeeper } from "./housekeeper.ts";
import { lockInstance } from "./instance-lock.ts";
import { createReadiness } from "./readiness.ts";
import { startWarnings } from "./start-warnings.ts";
import { serviceName, version } from "./version.ts";

export type Orchestrator = {
  /** Where it can be asked; null: only on stdin and stdout. */
  url: string | null;
  /** Aborted when the only client there can be is gone: stdin has ended. */
  gone: AbortSignal;
  /** Takes no more work, ends what runs (its work is saved), closes. Resolves when nothing is left. */
  stop: () => Promise<void>;
};

/** The composition root of the job orchestrator: reading it shows the system. */
export const startOrchestrator = async ({
  settings,
  warnings,
  env,
}: {
  settings: Settings;
  warnings: string[];
  env: NodeJS.ProcessEnv;
}): Promise<Orchestrator> => {
  const now = (): Date => new Date();
  const redact = createRedactor(secretValues(settings, env));
  const log = createLog(settings.logLevel, redact);
  for (const warning of warnings) log.warn(warning);

  const closing = new AbortController();
  const lock = await lockInstance(settings.jobsDir, closing.signal);
  const store = await openFilesJobStore(settings.jobsDir, log);
  const worktreeRecords = await openFilesWorktreeStore(join(settings.jobsDir, "worktrees"), log);
  const events = await openFilesEventLog({
    directory: join(settings.jobsDir, "events"),
    maxBytes: settings.eventLogMaxBytes,
    log,
    now,
  });

  const profiles = createProfiles({ settings, home: homedir(), now: Date.now });
  const repos = createRepos({ settings, env });
  await repos
    .clearRoot()
    .catch((err: unknown) => log.warn({ err }, "the worktree root could not be cleared"));
  const agent = createClaudeAgent({ settings, env });
  const runner = createRunner({
    profiles,
    repos,
    agent,
    newId: randomUUID,
    redact,
    log,
    orphanGrace,
    salvageTimeout: 60,
  });

  const disks = createDisks({
    places: [
      { path: settings.reposRoot, purpose: "repositories" },
      { path: settings.worktreeRoot, purpose: "worktrees" },
      { path: settings.jobsDir, purpose: "jobs" },
    ],
    minFreeBytes: settings.minFreeDiskBytes,
    now,
  });
  const admit = async (): Promise<void> => {
    if (closing.signal.aborted) throw draining();
    await disks.requireRoom();
  };

  const settlements = createBell();
  const queue = createLocalQueue({
    concurrency: settings.maxParallelJobs,
    onError: (err, job) => log.error({ err, job }, "the worker failed"),
  });
  const metrics = createMetrics({
    jobCounts: store.counts,
    running: () => worker.runningCount(),
    maxParallel: settings.maxParallelJobs,
    volumes: disks.volumes,
  });
  const worker = createWorker({
    store,
    events,
    settlements,
    execute: runner.execute,
    onEnded: metrics.jobEnded,
    instance: { podName: settings.podName, epoch: randomUUID() },
    now,
    redact,
    log,
  });

  const jobs = createJobs({
    store,
    events,
    queue,
    settlements,
    settings,
    now,
    newId: () => newJobId(store.hasPrefix),
    check: async (input) => {
      const repoUrl = repos.parseUrl(input.repo_url);
      repos.checkRef(input.base_ref);
      const profile = await profiles.route({ name: input.profile, task: input.task, repoUrl });
      return { repoUrl, profile };
    },
    interrupt: worker.interrupt,
    admit,
    joinWorktree: (id, accept) => worktrees.join(id, accept),
  });
  const worktrees = createWorktrees({
    records: worktreeRecords,
    jobs: store,
    repos,
    endJob: jobs.end,
    reserve: worker.reserveWorktree,
    endOrphans: async (id) => {
      await killOrphans(null, { name: "SERVICE_JOB_ID", value: id }, { graceSeconds: orphanGrace });
    },
    admit,
    turns: createTurns(),
    settings,
    now,
    newId: randomUUID,
    redact,
    log,
    closing: closing.signal,
  });

  const root = process.getuid?.() === 0;
  for (const warning of await startWarnings({ settings, env, root, signal: closing.signal }))
    log.warn(warning);
  const doors = await openDoors({
    handlers: createHandlers({ jobs, profiles, worktrees, disks, settings }),
    events,
    settings,
    readiness: createReadiness({ store, disks, closing: closing.signal, now }),
    metrics: metrics.read,
    service: { name: serviceName, version },
    log,
    newRequestId: randomUUID,
    closing: closing.signal,
  });
  lock.tell(doors.url);

  const recovery = recover({
    store,
    events,
    queue,
    settlements,
    settleLost: runner.settleLost,
    now,
    log,
  }).then(
    (counts) => log.info(counts, "jobs of the earlier start taken up"),
    (err: unknown) =>
      log.error({ err }, "jobs of the earlier start could not all be settled; the next start tries again"),
  );
  // Not before: a job of the earlier start may hold the session or the worktree of one that waits.
  const started = recovery.then(async () => {
    if (closing.signal.aborted) return;
    queue.start(worker.work);
    await worktrees
      .takeUp()
      .catch((err: unknown) =>
        log.error({ err }, "worktrees that were being prepared could not be taken up"),
      );
  });
  const retries = createRetries();
  const housekeeper = startHousekeeper(async (signal) => {
    await tidy(
      {
        store,
        events,
        queue,
        settlements,
        worktreeTtl: settings.worktreeTtl,
        removeWorktree: worktrees.leave,
        removeConfig: runner.removeConfig,
        reserveWorktree: worker.reserveWorktree,
        retries,
        now,
        log,
      },
      signal,
    );
    await worktrees.tidy(signal);
  }, 1000);
  log.info({ url: doors.url, version }, doors.url === null ? "serving on stdin and stdout" : "listening");

  return {
    url: doors.url,
    gone: doors.gone,
    stop: async () => {
      closing.abort();
      queue.stop();
      await started;
      await worker.stop();
      await housekeeper.stop();
      await worktrees.settled();
      await doors.close(5000);
      await events.close();
      await store.close();
      await worktreeRecords.close();
      await lock.release();
    },
  };
};

/** Seconds between SIGTERM and SIGKILL for what a dead instance left behind; short, since nobody reads its answer. */
const orphanGrace = 1;

const draining = (): ServiceError =>
  new ServiceError("draining", "This instance is shutting down and takes no new work; try again shortly", {
    retryAfter: 10,
  });

/** Branches are named by the first eight digits: no two stored jobs share them. */
const newJobId = (isTaken: (prefix: string) => boolean): string => {
  for (;;) {
    const id = randomUUID();
    if (!isTaken(id.slice(0, 8))) return id;
  }
};
