import { z } from "zod";
import type { ZodOpenApiOperationObject } from "zod-openapi";
import { isCompletionFinal, type Completion } from "../contract/completion.ts";
import type { RequestContext } from "../contract/operation.ts";
import { followed, type Following } from "../http/event-stream.ts";
import { agentModeTag, errorResponses } from "../http/openapi.ts";
import { readPosition } from "../http/query.ts";
import type { Call, Route } from "../http/route.ts";
import { encodeEvent } from "../lib/sse.ts";

type Entry = {
  event_type: string;
  content: string;
  ts: string;
  session_id: string;
  correlation_id: string;
};

type Dependencies = Following & {
  /** Events after a position; see the port `EventBus`. */
  events: {
    read: (
      correlationId: string,
      reading: { after: string | null; since: string; once: boolean },
      signal: AbortSignal,
    ) => AsyncIterable<{ position: string; event: Entry }>;
  };
  getCompletion: (input: { uuid: string }, context: RequestContext) => Promise<{ completion: Completion }>;
};

const description: ZodOpenApiOperationObject = {
  operationId: "completion_events",
  tags: [agentModeTag],
  summary: "Follow a completion",
  description:
    "Server-sent events: what the agent does, those to come included, each with its position as id, its `event_type` " +
    "(thinking, tool_use, tool_result, assistant_text, error, done) as event name, and `{event_type, content, ts, session_id, " +
    "correlation_id}` as data. The last one is `done`; a stream that ends without it is to be resumed with `Last-Event-ID`. " +
    "The newest 2,000 are kept until an hour after the end.",
  requestParams: {
    path: z.object({ uuid: z.string().describe("The caller's own id") }),
    query: z.object({
      after: z.string().optional().describe("Only events after this position"),
    }),
    header: z.object({
      "Last-Event-ID": z.string().optional().describe("As `after`, over which it wins"),
    }),
  },
  responses: {
    "200": { description: "The events", content: { "text/event-stream": { schema: z.string() } } },
    ...errorResponses(["invalid_request", "completion_not_found"]),
  },
};

/**
 * `GET /completions/{uuid}/events`: a completion's events as server-sent events, from a position on, until `done`.
 * When the events of an old completion have expired, `done` is the only one. A stream that ends without it was cut
 * short; resume it.
 */
export const completionEventsRoute = (deps: Dependencies): Route => ({
  method: "get",
  path: "/completions/{uuid}/events",
  openapi: description,
  handle: async (call) => {
    const uuid = call.path["uuid"] ?? "";
    const after = readPosition(call.request, /^\d{1,15}-\d{1,15}$/, "the id of an event that was received");
    const context = { signal: call.request.signal, principal: call.principal };
    const { completion } = await deps.getCompletion({ uuid }, context);
    return followed(call, deps, (signal) => encoded(deps, { completion, after, call }, signal));
  },
});

type Reading = { completion: Completion; after: string | null; call: Call };

async function* encoded(
  { events, getCompletion }: Dependencies,
  { completion: { uuid, status, created_at: since }, after, call: { principal } }: Reading,
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  const reading = { after, since, once: isCompletionFinal(status) };
  for await (const { position: id, event } of events.read(uuid, reading, signal)) {
    yield encodeEvent({ id, event: event.event_type, data: JSON.stringify(event) });
    if (event.event_type === "done") return;
  }
  if (signal.aborted) return;
  const { completion } = await getCompletion({ uuid }, { signal, principal });
  if (isCompletionFinal(completion.status))
    yield encodeEvent({ event: "done", data: JSON.stringify(doneOf(completion)) });
}

const doneOf = ({ uuid, status, ended_at, created_at, session_id }: Completion): Entry => ({
  event_type: "done",
  content: status,
  ts: ended_at ?? created_at,
  session_id: session_id ?? "",
  correlation_id: uuid,
});
