import { z } from "zod";
import type { JobChange } from "../contract/job-list.ts";
import { encodeEvent } from "../lib/sse.ts";
import { followed, type Following } from "./event-stream.ts";
import { errorResponses } from "./openapi.ts";
import type { Route } from "./route.ts";

/** Changes of jobs from now on, until the signal aborts. */
export type ReadChanges = (signal: AbortSignal) => AsyncIterable<JobChange>;

const example = `event: removed\ndata: {"type":"removed","id":"0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10"}\n\n`;

/** `GET /jobs/changes`: what changes about jobs, on whatever instance, from now on. It stands before `GET /jobs/{job_id}`. */
export const changesRoute = (deps: Following & { changes: ReadChanges }): Route => ({
  method: "get",
  path: "/jobs/changes",
  openapi: {
    operationId: "job_changes",
    summary: "Follow all jobs",
    description:
      "Server-sent events: `job` for one that is new or has changed, `removed`, and `behind` when more has changed than " +
      "is told. Each has a `JobChange` as data. Nothing of before is sent: read the list once the stream has begun, and " +
      "again after each reconnection and `behind`. A `: ping` comment comes every 15 s.",
    responses: {
      "200": {
        description: "The changes",
        content: { "text/event-stream": { schema: z.string(), example } },
      },
      ...errorResponses([]),
    },
  },
  handle: (call) => followed(call, deps, (signal) => encoded(deps.changes(signal))),
});

/** A change goes to all pages: it is written as text once. */
const texts = new WeakMap<JobChange, string>();

async function* encoded(changes: AsyncIterable<JobChange>): AsyncGenerator<string, void> {
  for await (const change of changes) {
    const text = texts.get(change) ?? encodeEvent({ event: change.type, data: JSON.stringify(change) });
    texts.set(change, text);
    yield text;
  }
}
