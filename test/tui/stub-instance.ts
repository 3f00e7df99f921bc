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
};

/** An instance that answers what `svc agents` asks, with these jobs. */
export const stubInstance = async (world: World): Promise<Stub> => {
  const { instances, answeredBy, waiting = 0, jobs = () => [], events = () => [] } = world;
  return await stubService(
    {
      "GET /instances": (request, response) =>
        json(200, {
          success: true,
          count: instances().length,
          queue: { waiting, running: 1, oldest_wait_seconds: null },
          lost: 0,
          recovered: 0,
          limits: [],
          instances: instances(),
          answered_by: answeredBy,
        })(request, response),
      "GET /health": json(200, { status: "ok", service: "svc" }),
      "GET /ready": json(200, { ready: true, reasons: [], checks: [], companions: [] }),
      "GET /jobs": (request, response) =>
        json(200, { success: true, count: jobs().length, jobs: jobs(), next_cursor: null })(
          request,
          response,
        ),
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
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
      for (const event of events(id)) response.write(`id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`);
      if (job.status !== "running") response.end(`event: end\ndata: ${JSON.stringify({ job })}\n\n`);
    },
  );
};
