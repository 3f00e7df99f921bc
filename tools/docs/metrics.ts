import { exampleJobs } from "../../src/http/app.fixture.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { item } from "./item.ts";

/** The service's own metrics, read from a registry of which each has a value. */
export const metricsPage = async (): Promise<string> => {
  const metrics = createMetrics({
    jobCounts: async () => ({ queued: 0, running: 0, succeeded: 0, failed: 0, cancelled: 0, expired: 0 }),
    overview: async () => ({
      queue: { waiting: 0, running: 0, oldest_wait_seconds: null },
      lost: 0,
      recovered: 0,
      limits: [],
      instances: [
        {
          name: "svc-0",
          version: "",
          started_at: "",
          running: 0,
          max_parallel_jobs: 0,
          turns: 0,
          draining: false,
          address: null,
          agent_mode: false,
        },
      ],
    }),
    maxParallel: 1,
    volumes: async () => [{ purpose: "jobs", path: "/", free_bytes: 0, total_bytes: 0 }],
    companions: async () => [{ target: "hub", ageSeconds: 0, failing: false }],
  });
  metrics.watch({ running: () => 0, chat: () => ({ turns: 0, processes: 0 }) });
  metrics.jobEnded(exampleJobs.succeeded);
  const { body } = await metrics.read();
  const items = [...body.matchAll(/^# HELP ((?:svc|service)_\w+) (.*)\n# TYPE \w+ (\w+)/gm)].map(
    ([, name = "", help = "", type = ""]) =>
      item(`\`${name}\` (${[type, ...labelsOf(body, name)].join(", ")}): ${help}`),
  );
  return [
    "# Metrics",
    [
      "`GET /metrics` has these, with their kind and labels, besides those of Node.",
      "Those that come from the shared store (`svc_jobs`,",
      "`svc_queue_…`, `svc_instance_…`, `svc_jobs_lost_total`, `svc_jobs_recovered_total`) are the same on every instance:",
      "aggregate them with `max`, not `sum`. They are left out while the store is away, and `svc_store_up` is 0.",
    ].join("\n"),
    items.join("\n"),
  ].join("\n\n");
};

const labelsOf = (body: string, name: string): string[] => {
  const [, labels = ""] = new RegExp(`^${name}(?:_bucket)?\\{(.*)\\} `, "m").exec(body) ?? [];
  return [...labels.matchAll(/(\w+)="/g)].flatMap(([, label = ""]) => (label === "le" ? [] : `\`${label}\``));
};
