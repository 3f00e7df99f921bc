import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Overview } from "../contract/instance.ts";
import { finalStatuses, jobStatuses, type Job, type JobStatus } from "../contract/job.ts";
import type { Volume } from "../contract/worktree.ts";

type Sources = {
  /** This and `overview` may reject while the store is unreachable. */
  jobCounts: () => Promise<Record<JobStatus, number>>;
  overview: () => Promise<Overview>;
  maxParallel: number;
  volumes: () => Promise<Volume[]>;
  companions: () => Promise<{ target: string; ageSeconds: number | null; failing: boolean }[]>;
};

type Activity = {
  /** Jobs that this process runs. */
  running: () => number;
  /** Turns of agent mode in progress, and processes of its agent; null: it is off. */
  chat: () => { turns: number; processes: number } | null;
};

/** The service's Prometheus metrics. Numbers that another part has are read at each scrape, not counted twice. */
export const createMetrics = ({ jobCounts, overview, maxParallel, volumes, companions }: Sources) => {
  const registry = new Registry();
  const registers = [registry];
  // Each measurement wakes the process: at the usual hundred a second they would be most of an idle process's work.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });

  const readStore = createStoreMetrics(registry, { jobCounts, overview });
  new Gauge({
    name: "svc_max_parallel_jobs",
    help: "Jobs this instance may run at once",
    registers,
  }).set(maxParallel);

  new Gauge({
    name: "svc_disk_free_bytes",
    help: "Free room on the disks of jobs, clones and worktrees",
    labelNames: ["purpose"],
    registers,
    async collect() {
      for (const { purpose, free_bytes } of await volumes())
        if (free_bytes !== null) this.set({ purpose }, free_bytes);
    },
  });

  new Gauge({
    name: "svc_companion_age_seconds",
    help: "Since the last fetch of a companion repository that succeeded",
    labelNames: ["target"],
    registers,
    async collect() {
      for (const { target, ageSeconds } of await companions())
        if (ageSeconds !== null) this.set({ target }, ageSeconds);
    },
  });
  new Gauge({
    name: "svc_companion_failing",
    help: "1: the last fetch of a companion repository failed",
    labelNames: ["target"],
    registers,
    async collect() {
      for (const { target, failing } of await companions()) this.set({ target }, failing ? 1 : 0);
    },
  });

  const ended = new Counter({
    name: "svc_jobs_ended_total",
    help: "Jobs that ended, by status and failure reason",
    labelNames: ["status", "failure_reason"],
    registers,
  });
  const duration = new Histogram({
    name: "svc_job_duration_seconds",
    help: "From claim to end",
    labelNames: ["status"],
    buckets: [1, 5, 15, 60, 300, 900, 1800, 3600, 7200],
    registers,
  });
  const waited = new Histogram({
    name: "svc_job_wait_seconds",
    help: "From submission to claim",
    buckets: [0.01, 0.1, 1, 10, 60, 600, 3600],
    registers,
  });

  const dropped = new Counter({
    name: "svc_telemetry_dropped_total",
    help: "Telemetry that was lost, or has to be sent again: spans of traces, records from agents, turns of agent mode",
    labelNames: ["what"],
    registers,
  });

  const gauge = (name: string, help: string, read: () => number): Gauge =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });

  return {
    jobEnded: (job: Job): void => {
      if (!finalStatuses.includes(job.status)) return;
      ended.inc({ status: job.status, failure_reason: job.failure_reason ?? "" });
      if (job.duration_ms !== null) duration.observe({ status: job.status }, job.duration_ms / 1000);
      if (job.started_at !== null)
        waited.observe((Date.parse(job.started_at) - Date.parse(job.created_at)) / 1000);
    },
    dropped: (what: "spans" | "records" | "turns", count: number): void => dropped.inc({ what }, count),
    watch: ({ running, chat }: Activity): void => {
      gauge("svc_running_jobs", "Jobs this instance runs now", running);
      gauge("svc_chat_turns", "Answers of agent mode under way in this instance", () => chat()?.turns ?? 0);
      gauge(
        "svc_chat_processes",
        "Processes of agent mode, at work or waiting",
        () => chat()?.processes ?? 0,
      );
    },
    read: async () => {
      await readStore();
      return { contentType: registry.contentType, body: await registry.metrics() };
    },
  };
};

/**
 * Metrics from the store, the same whichever instance is asked. Returns the function that updates them before a scrape: all
 * together, and all absent while the store is unreachable, since an old number would look like a new one.
 */
const createStoreMetrics = (
  registry: Registry,
  { jobCounts, overview }: Pick<Sources, "jobCounts" | "overview">,
): (() => Promise<void>) => {
  const registers = [registry];
  const gauge = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge({ name, help, labelNames, registers });
  const up = gauge(
    "svc_store_up",
    "1: the store answers; 0: it is unreachable, and its metrics are left out",
  );
  const jobs = gauge("svc_jobs", "Stored jobs by status", "status");
  const waiting = gauge("svc_queue_length", "Jobs that wait, of all instances");
  const oldest = gauge("svc_queue_oldest_seconds", "How long the job that waits longest has waited");
  const parked = gauge(
    "service_limit_parked_jobs",
    "Jobs that wait for a usage limit of the model, of all instances",
  );
  const running = gauge("svc_instance_running_jobs", "Jobs that each instance runs", "instance");
  const maxParallel = gauge(
    "svc_instance_max_parallel_jobs",
    "Jobs that each instance may run at once",
    "instance",
  );
  const draining = gauge("svc_instance_draining", "1: the instance takes no new jobs", "instance");
  const lost = new Counter({
    name: "svc_jobs_lost_total",
    help: "Jobs that failed with their instance",
    registers,
  });
  const recovered = new Counter({
    name: "svc_jobs_recovered_total",
    help: "Jobs that were queued again after the loss of their instance",
    registers,
  });
  const fromStore = [jobs, waiting, oldest, parked, running, maxParallel, draining, lost, recovered];

  return async () => {
    const [counts, all] = await Promise.all([jobCounts(), overview()]).catch(() => [null, null]);
    // Stopped instances must not stay. Metrics without labels are absent only after `remove`.
    for (const metric of fromStore) metric.reset();
    up.set(counts === null ? 0 : 1);
    if (counts === null || all === null) {
      for (const metric of [waiting, oldest, parked, lost, recovered]) metric.remove();
      return;
    }
    for (const status of jobStatuses) jobs.set({ status }, counts[status]);
    waiting.set(all.queue.waiting);
    oldest.set(all.queue.oldest_wait_seconds ?? 0);
    parked.set(all.limits.reduce((sum, { jobs: count }) => sum + count, 0));
    lost.inc(all.lost);
    recovered.inc(all.recovered);
    for (const { name: instance, ...facts } of all.instances) {
      running.set({ instance }, facts.running);
      maxParallel.set({ instance }, facts.max_parallel_jobs);
      draining.set({ instance }, facts.draining ? 1 : 0);
    }
  };
};
