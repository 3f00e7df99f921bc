import { randomUUID } from "node:crypto";
import { homedir } from "node:os";
import { join } from "node:path";
import { createClaudeAgent } from "../agents/claude/claude.ts";
import { secretValues } from "../config/secrets.ts";
import type { Settings } from "../config/variables.ts";
import { createApp } from "../http/app.ts";
import { listen } from "../http/server.ts";
import { tidy } from "../jobs/housekeeping.ts";
import { createJobs } from "../jobs/jobs.ts";
import { createLocalQueue } from "../jobs/local-queue.ts";
import { recover } from "../jobs/recovery.ts";
import { createWorker } from "../jobs/worker.ts";
import { createBell } from "../lib/bell.ts";
import { createLog } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { createProfiles } from "../profiles/profiles.ts";
import { createRepos } from "../repos/create.ts";
import { createRunner } from "../runner/runner.ts";
import { openFilesEventLog } from "../store/files/files-event-log.ts";
import { openFilesJobStore } from "../store/files/files-job-store.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { createHandlers } from "./handlers.ts";
import { startHousekeeper } from "./housekeeper.ts";
import { lockInstance } from "./instance-lock.ts";
import { createReadiness } from "./readiness.ts";
import { startWarnings } from "./start-warnings.ts";
import { serviceName, version } from "./version.ts";

export type Orchestrator = {
  url: string;
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
  const events = await openFilesEventLog({
    directory: join(settings.jobsDir, "events"),
    maxBytes: settings.eventLogMaxBytes,
    log,
    now,
  });

  const profiles = createProfiles({ settings, home: homedir(), now: Date.now });
  const repos = createRepos({ settings, env });
  const agent = createClaudeAgent({ settings, env });
  const runner = createRunner({
    profiles,
    repos,
    agent,
    newId: randomUUID,
    redact,
    log,
    orphanGrace: 1,
    salvageTimeout: 60,
  });

  const settlements = createBell();
  const queue = createLocalQueue({
    concurrency: settings.maxParallelJobs,
    onError: (err, job) => log.error({ err, job }, "the worker failed"),
  });
  const metrics = createMetrics({
    jobCounts: store.counts,
    running: () => worker.runningCount(),
    maxParallel: settings.maxParallelJobs,
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
    isDraining: () => closing.signal.aborted,
  });

  const app = createApp({
    handlers: createHandlers(jobs, profiles),
    events,
    settings,
    readiness: createReadiness({ store, closing: closing.signal, now }),
    metrics: metrics.read,
    service: { name: serviceName, version },
    log,
    newRequestId: randomUUID,
    closing: closing.signal,
  });
  const root = process.getuid?.() === 0;
  for (const warning of await startWarnings({ settings, env, root, signal: closing.signal }))
    log.warn(warning);
  const server = await listen(app, settings);

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
  const started = recovery.then(() => {
    if (!closing.signal.aborted) queue.start(worker.work);
  });
  const housekeeper = startHousekeeper(
    (signal) =>
      tidy(
        {
          store,
          events,
          queue,
          settlements,
          worktreeTtl: settings.worktreeTtl,
          removeWorktree: runner.removeWorktree,
          removeConfig: runner.removeConfig,
          reserveWorktree: worker.reserveWorktree,
          now,
          log,
        },
        signal,
      ),
    1000,
  );
  log.info({ url: server.url, version }, "listening");

  return {
    url: server.url,
    stop: async () => {
      closing.abort();
      queue.stop();
      await started;
      await worker.stop();
      await housekeeper.stop();
      await server.close(5000);
      await events.close();
      await store.close();
      await lock.release();
    },
  };
};

/** Branches are named by the first eight digits: no two stored jobs share them. */
const newJobId = (isTaken: (prefix: string) => boolean): string => {
  for (;;) {
    const id = randomUUID();
    if (!isTaken(id.slice(0, 8))) return id;
  }
};
