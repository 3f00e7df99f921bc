import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Overview } from "../contract/instance.ts";
import { finalStatuses, type Job, type JobStatus, jobStatuses } from "../contract/job.ts";
import type { Volume } from "../contract/worktree.ts";

type Sources = {
  jobCounts: () => Promise<Record<JobStatus, number>>;
  /** All instances; this and the counts may reject while the store is unreachable. */
  overview: () => Promise<Overview>;
  maxParallel: number;
  volumes: () => Promise<Volume[]>;
};

type Activity = {
  /** Jobs that run in this process. */
  running: () => number;
  /** Turns of agent mode in flight, and its agent processes; null: it is off. */
  chat: () => { turns: number; processes: number } | null;
};

/**
 * The service's Prometheus metrics. Figures that exist already are read on each scrape instead of being counted again.
 */
export const createMetrics = ({ jobCounts, overview, maxParallel, volumes }: Sources) => {
  const registry = new Registry();
  // Each sample wakes the process: the default of a hundred a second would be most of an idle process's work.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });

  const readStore = createStoreMetrics({ registry, jobCounts, overview });
  new Gauge({
    name: "svc_max_parallel_jobs",
    help: "Jobs this instance may run at once",
    registers: [registry],
  }).set(maxParallel);

  new Gauge({
    name: "svc_disk_free_bytes",
    help: "Free room on the disks of jobs, clones and worktrees",
    labelNames: ["purpose"],
    registers: [registry],
    async collect() {
      for (const { purpose, free_bytes } of await volumes())
        if (free_bytes !== null) this.set({ purpose }, free_bytes);
    },
  });

  const ended = new Counter({
    name: "svc_jobs_ended_total",
    help: "Jobs that ended, by status and failure reason",
    labelNames: ["status", "failure_reason"],
    registers: [registry],
  });
  const duration = new Histogram({
    name: "svc_job_duration_seconds",
    help: "From claim to end",
    labelNames: ["status"],
    buckets: [1, 5, 15, 60, 300, 900, 1800, 3600, 7200],
    registers: [registry],
  });
  const waited = new Histogram({
    name: "svc_job_wait_seconds",
    help: "From submission to claim",
    buckets: [0.01, 0.1, 1, 10, 60, 600, 3600],
    registers: [registry],
  });

  return {
    jobEnded: (job: Job): void => {
      if (!finalStatuses.includes(job.status)) return;
      ended.inc({ status: job.status, failure_reason: job.failure_reason ?? "" });
      if (job.duration_ms !== null) duration.observe({ status: job.status }, job.duration_ms / 1000);
      if (job.started_at !== null)
        waited.observe((Date.parse(job.started_at) - Date.parse(job.created_at)) / 1000);
    },
    /** From now on also exposes the load of this process. */
    watch: ({ running, chat }: Activity): void => {
      new Gauge({
        name: "svc_running_jobs",
        help: "Jobs this instance runs now",
        registers: [registry],
        collect() {
          this.set(running());
        },
      });
      createChatMetrics(registry, chat);
    },
    read: async () => {
      await readStore();
      return { contentType: registry.contentType, body: await registry.metrics() };
    },
  };
};

type Counts = { turns: number; processes: number };

/** Load of agent mode; nothing when it is off. */
export const createChatMetrics = (registry: Registry, counts: () => Counts | null): void => {
  const gauge = (name: string, help: string, of: (counts: Counts) => number): Gauge =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        const now = counts();
        this.reset();
        if (now !== null) this.set(of(now));
      },
    });
  gauge("svc_chat_turns", "Answers of agent mode under way in this instance", ({ turns }) => turns);
  gauge("svc_chat_processes", "Processes of agent mode, at work or waiting", ({ processes }) => processes);
};

type StoreSources = {
  registry: Registry;
  jobCounts: () => Promise<Record<JobStatus, number>>;
  overview: () => Promise<Overview>;
};

/**
 * Figures from the store, the same on every instance. Returns a function that refreshes them before a scrape. They are
 * read together, and omitted together while the store is unreachable: an old figure would look like a new one.
 */
export const createStoreMetrics = ({
  registry,
  jobCounts,
  overview,
}: StoreSources): (() => Promise<void>) => {
  const registers = [registry];
  const gauge = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge({ name, help, labelNames, registers });
  const up = gauge("svc_store_up", "1: the store answers; 0: it is away, and what it would tell is left out");
  const jobs = gauge("svc_jobs", "Stored jobs by status", "status");
  const waiting = gauge("svc_queue_length", "Jobs that wait, of all instances");
  const oldest = gauge("svc_queue_oldest_seconds", "How long the job that waits longest has waited");
  const running = gauge("svc_instance_running_jobs", "Jobs that each instance runs", "instance");
  const most = gauge("svc_instance_max_parallel_jobs", "Jobs that each instance may run at once", "instance");
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
  const gauges = [jobs, waiting, oldest, running, most, draining, lost, recovered];

  return async () => {
    const [counts, all] = await Promise.all([jobCounts(), overview()]).catch(() => [null, null]);
    // Lost instances must not stay; without labels only `remove` deletes the value.
    for (const metric of gauges) metric.reset();
    up.set(counts === null ? 0 : 1);
    if (counts === null || all === null) {
      for (const metric of [waiting, oldest, lost, recovered]) metric.remove();
      return;
    }
    for (const status of jobStatuses) jobs.set({ status }, counts[status]);
    waiting.set(all.queue.waiting);
    oldest.set(all.queue.oldest_wait_seconds ?? 0);
    lost.inc(all.lost);
    recovered.inc(all.recovered);
    for (const { name: instance, ...facts } of all.instances) {
      running.set({ instance }, facts.running);
      most.set({ instance }, facts.max_parallel_jobs);
      draining.set({ instance }, facts.draining ? 1 : 0);
    }
  };
};
