import { z } from "zod";
import type { ZodOpenApiOperationObject } from "zod-openapi";
import type { JobEvent } from "../contract/event.ts";
import { ServiceError } from "../contract/errors.ts";
import { isFinal, JobId, type Job } from "../contract/job.ts";
import type { RequestContext } from "../contract/operation.ts";
import { encodeEvent } from "../lib/sse.ts";
import type { EventLog } from "../store/event-log.ts";
import { followed, type Following } from "./event-stream.ts";
import { errorResponses } from "./openapi.ts";
import { readPosition, readQuery } from "./query.ts";
import type { Call, Route } from "./route.ts";

type Dependencies = Following & {
  events: Pick<EventLog, "read">;
  getJob: (input: { job_id: string }, context: RequestContext) => Promise<{ job: Job }>;
};

const stage = {
  seq: 1,
  at: "2026-03-02T09:15:00.000Z",
  attempt: 0,
  type: "stage",
  stage: "queued",
  detail: null,
};
export const streamExample = `id: 1\nevent: stage\ndata: ${JSON.stringify(stage)}\n\n`;

/** OpenAPI cannot describe the items of a stream, so the description names their schema. */
const description: ZodOpenApiOperationObject = {
  operationId: "job_events",
  summary: "Follow a job",
  description:
    "Server-sent events: the job's events after `after`, past and future. Each has its `seq` as id, its `type` as event " +
    'name and a `JobEvent` as data. The last event is `end` with `{"job": Job}`. When a stream ends without it, resume ' +
    "with `Last-Event-ID`. A `: ping` comment comes every 15 s.",
  requestParams: {
    path: z.object({ job_id: JobId }),
    query: z.object({
      after: z.int().min(0).default(0).describe("Only events with a greater number"),
      follow: z
        .boolean()
        .default(true)
        .describe("false: only the events so far; `end` comes last if the job has ended"),
    }),
    header: z.object({
      "Last-Event-ID": z.int().min(0).optional().describe("As `after`, which it overrides"),
    }),
  },
  responses: {
    "200": {
      description: "The events",
      content: { "text/event-stream": { schema: z.string(), example: streamExample } },
    },
    ...errorResponses(["job_not_found", "ambiguous_id"]),
  },
};

/**
 * `GET /jobs/{job_id}/events`: the job's event log from a position on, until the job has ended. The last event is then
 * `end` with the final job; a reader resumes a stream that ends without it.
 */
export const eventsRoute = (deps: Dependencies): Route => ({
  method: "get",
  path: "/jobs/{job_id}/events",
  openapi: description,
  handle: async (call) => {
    const number = "the number of an event, 0 or more";
    const after = Number(readPosition(call.request, /^(0|[1-9]\d{0,14})$/, number, ["after", "follow"]) ?? 0);
    const follow = readQuery(call.request.url).get("follow") ?? "true";
    if (follow !== "true" && follow !== "false")
      throw new ServiceError("invalid_request", "follow: must be true or false");
    const context = { signal: call.request.signal, principal: call.principal };
    const { job } = await deps.getJob({ job_id: call.path["job_id"] ?? "" }, context);
    const reading = { jobId: job.id, after, once: follow === "false", call };
    return followed(call, deps, (signal) => encoded(deps, reading, signal));
  },
});

async function* encoded(
  deps: Dependencies,
  { jobId, after, once, call }: { jobId: string; after: number; once: boolean; call: Call },
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  for await (const event of deps.events.read(jobId, after, signal, once)) yield encodedEvent(event);
  if (signal.aborted) return;
  const { job } = await deps.getJob({ job_id: jobId }, { signal, principal: call.principal });
  if (isFinal(job.status)) yield encodeEvent({ event: "end", data: JSON.stringify({ job }) });
}

const encodedEvent = (event: JobEvent): string =>
  encodeEvent({ id: String(event.seq), event: event.type, data: JSON.stringify(event) });
