import type { Overview } from "../../src/contract/instance.ts";
import type { JobEvent } from "../../src/contract/event.ts";
import type { Job } from "../../src/contract/job.ts";
import { json, stubService, type Stub } from "../cli/stub-service.ts";

type Instance = Overview["instances"][number];

export const sampleInstance = (changes: Partial<Instance> = {}): Instance => ({
  name: "build-1",
  version: "1.0.0",
  started_at: "2026-03-02T08:00:00.000Z",
  running: 1,
  max_parallel_jobs: 3,
  turns: 0,
  draining: false,
  address: null,
  agent_mode: false,
  ...changes,
});

type World = {
  instances: () => Instance[];
  answeredBy: string;
  waiting?: number;
  jobs?: () => Job[];
  events?: (id: string) => JobEvent[];
  /** What every job has changed. */
  diff?: string;
};

export type StubInstance = Stub & {
  /** Event streams that are open now, and the most that ever were. */
  streams: { open: number; most: number };
};

/** An instance that answers what `svc agents` asks, with these jobs. */
export const stubInstance = async (world: World): Promise<StubInstance> => {
  const { instances, answeredBy, waiting = 0, jobs = () => [], events = () => [], diff = "" } = world;
  const streams = { open: 0, most: 0 };
  const stub = await stubService(
    {
      "GET /instances": (request, response) =>
        json(200, {
          success: true,
          count: instances().length,
          queue: { waiting, running: 1, oldest_wait_seconds: null },
          lost: 0,
          recovered: 0,
          instances: instances(),
          answered_by: answeredBy,
        })(request, response),
      "GET /health": json(200, { status: "ok", service: "svc" }),
      "GET /ready": json(200, { ready: true, reasons: [], checks: [], companions: [] }),
      "GET /jobs": (request, response) => {
        const query = new URL(request.url, "http://stub").searchParams;
        const limit = Number(query.get("limit") ?? 20);
        const from = Number(query.get("cursor") || 0);
        const words = (query.get("q") ?? "").toLowerCase();
        const found = jobs().filter(
          ({ status, task }) =>
            (query.get("status") !== "running" || status === "running") && task.toLowerCase().includes(words),
        );
        const page = found.slice(from, from + limit);
        const next_cursor = from + limit < found.length ? String(from + limit) : null;
        json(200, { success: true, count: page.length, jobs: page, next_cursor })(request, response);
      },
    },
    (request, response) => {
      const [, id = "", rest] = /^\/jobs\/([^/?]+)(\/\w+)?/.exec(request.url) ?? [];
      const job = jobs().find((each) => each.id === id);
      if (job === undefined)
        return json(404, { success: false, error: `There is no job ${id}`, code: "job_not_found" })(
          request,
          response,
        );
      if (rest === undefined) return json(200, { success: true, job })(request, response);
      if (rest === "/diff")
        return json(200, { success: true, files: [{}], diff, truncated: false })(request, response);
      streams.open += 1;
      streams.most = Math.max(streams.most, streams.open);
      response.on("close", () => (streams.open -= 1));
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
      for (const event of events(id)) response.write(`id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`);
      if (job.status !== "running") response.end(`event: end\ndata: ${JSON.stringify({ job })}\n\n`);
    },
  );
  return Object.assign(stub, { streams });
};
