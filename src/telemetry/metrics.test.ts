import { expect, test } from "vitest";
import type { Overview } from "../contract/instance.ts";
import { createMetrics } from "./metrics.ts";

const instance = {
  version: "1.0.0",
  started_at: "2026-05-01T12:00:00.000Z",
  max_parallel_jobs: 3,
  turns: 0,
  address: null,
  agent_mode: false,
};

const metricsOf = (store: { overview: Overview | null }) => {
  const metrics = createMetrics({
    jobCounts: async () => ({ queued: 4, running: 2, succeeded: 0, failed: 0, cancelled: 0, expired: 0 }),
    overview: async () => {
      if (store.overview === null) throw new Error("the store is unreachable");
      return store.overview;
    },
    maxParallel: 3,
    volumes: async () => [],
    companions: async () => [],
  });
  metrics.watch({ running: () => 2, chat: () => ({ turns: 1, processes: 4 }) });
  return metrics;
};

const busy: Overview = {
  queue: { waiting: 4, running: 2, oldest_wait_seconds: 12.5 },
  lost: 5,
  recovered: 6,
  limits: [
    { credential: "a", until: "2026-03-02T09:15:00.000Z", jobs: 2 },
    { credential: "b", until: "2026-03-02T09:16:00.000Z", jobs: 1 },
  ],
  instances: [
    { ...instance, name: "a", running: 2, draining: false },
    { ...instance, name: "b", running: 0, draining: true },
  ],
};

/** The lines of the service's own metrics that have a value. */
const valuesOf = async (metrics: ReturnType<typeof createMetrics>): Promise<string[]> =>
  (await metrics.read()).body
    .split("\n")
    .filter((line) => /^(svc_(?!job_)|service_)/.test(line))
    .toSorted();

test("the metrics show the queue, each instance and the jobs lost with one, at each scrape anew; while the store is unreachable they are absent and the others answer", async () => {
  const store: { overview: Overview | null } = { overview: busy };
  const metrics = metricsOf(store);
  const before = await valuesOf(metrics);
  expect(before).toEqual(
    expect.arrayContaining([
      'svc_jobs{status="queued"} 4',
      "svc_store_up 1",
      "svc_queue_length 4",
      "svc_queue_oldest_seconds 12.5",
      'svc_instance_running_jobs{instance="a"} 2',
      'svc_instance_running_jobs{instance="b"} 0',
      'svc_instance_max_parallel_jobs{instance="a"} 3',
      'svc_instance_draining{instance="a"} 0',
      'svc_instance_draining{instance="b"} 1',
      "svc_jobs_lost_total 5",
      "svc_jobs_recovered_total 6",
    ]),
  );
  const queue = { waiting: 0, running: 2, oldest_wait_seconds: null };
  store.overview = { ...busy, queue, instances: busy.instances.slice(0, 1) };
  const again = await valuesOf(metrics);
  expect(again).toEqual(
    expect.arrayContaining(["svc_jobs_lost_total 5", "svc_queue_length 0", "svc_queue_oldest_seconds 0"]),
  );
  // It has stopped.
  expect(again.filter((line) => line.includes('"b"'))).toEqual([]);
  store.overview = null;
  expect(await valuesOf(metrics)).toEqual([
    "svc_chat_processes 4",
    "svc_chat_turns 1",
    "svc_max_parallel_jobs 3",
    "svc_running_jobs 2",
    "svc_store_up 0",
  ]);
  store.overview = busy;
  expect(await valuesOf(metrics)).toEqual(before);
});
