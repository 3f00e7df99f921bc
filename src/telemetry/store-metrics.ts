import { Counter, Gauge, type Registry } from "prom-client";
import type { Overview } from "../contract/instance.ts";
import { jobStatuses, type JobStatus } from "../contract/job.ts";

type Sources = {
  registry: Registry;
  jobCounts: () => Promise<Record<JobStatus, number>>;
  overview: () => Promise<Overview>;
};

/**
 * The figures that stand in the store, the same whichever instance is asked. Returns how to bring them up to date before a
 * scrape: read together, and left out together while the store is away, since an old figure would look like a new one.
 */
export const createStoreMetrics = ({ registry, jobCounts, overview }: Sources): (() => Promise<void>) => {
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
  const told = [jobs, waiting, oldest, running, most, draining, lost, recovered];

  return async () => {
    const [counts, all] = await Promise.all([jobCounts(), overview()]).catch(() => [null, null]);
    // Instances that are gone must not stay; without labels only `remove` takes the value away.
    for (const metric of told) metric.reset();
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
