import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Overview } from "../contract/instance.ts";
import { finalStatuses, type Job, type JobStatus } from "../contract/job.ts";
import type { Volume } from "../contract/worktree.ts";
import { createChatMetrics } from "./chat-metrics.ts";
import { createStoreMetrics } from "./store-metrics.ts";

type Sources = {
  jobCounts: () => Promise<Record<JobStatus, number>>;
  /** All instances; this and the counts may reject while the store is away. */
  overview: () => Promise<Overview>;
  maxParallel: number;
  volumes: () => Promise<Volume[]>;
};

type Activity = {
  /** Jobs whose run goes on in this process. */
  running: () => number;
  /** Turns of agent mode under way, and processes of its agent; null: it is off. */
  chat: () => { turns: number; processes: number } | null;
};

/** The service's Prometheus metrics. Numbers that exist elsewhere are read when asked for, not counted twice. */
export const createMetrics = ({ jobCounts, overview, maxParallel, volumes }: Sources) => {
  const registry = new Registry();
  // Each look wakes the process: a hundred a second, as is usual, are most of what it does while nothing happens.
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
    /** Tells from now on what this process is at, too. */
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
