import { ServiceError } from "../contract/errors.ts";
import type { JobEvent } from "../contract/event.ts";
import { isFinal, type Job } from "../contract/job.ts";
import type { RequestContext } from "../contract/operation.ts";
import type { Log } from "../lib/log.ts";
import { encodeEvent } from "../lib/sse.ts";
import type { EventLog } from "../store/event-log.ts";
import { eventStream, streamed } from "./event-stream.ts";
import { unknownName } from "./faults.ts";
import { readQuery } from "./query.ts";
import type { Call, Route } from "./route.ts";

type Dependencies = {
  events: Pick<EventLog, "read">;
  getJob: (input: { job_id: string }, context: RequestContext) => Promise<{ job: Job }>;
  /** Aborted when the service shuts down: streams end, and readers resume elsewhere. */
  closing: AbortSignal;
  log: Log;
  pingEveryMs?: number;
};

/**
 * `GET /jobs/{job_id}/events`: the job's event log as server-sent events, from a position on, until the job has
 * ended. The last event is then `end` with the final job. A stream that ends without it was cut short and is to be
 * resumed. A reader is a position in the log: the next event is fetched when the last one has been taken.
 */
export const eventsRoute = (deps: Dependencies): Route => ({
  method: "get",
  path: "/jobs/{job_id}/events",
  handle: async (call) => {
    const jobId = call.path["job_id"] ?? "";
    const after = position(call.request);
    const context = { signal: call.request.signal, principal: call.principal };
    await deps.getJob({ job_id: jobId }, context);
    // A reply to HEAD is never read: nothing may be started for it.
    if (call.request.method === "HEAD") return streamed(null);
    return streamed(
      eventStream((signal) => encoded(deps, { jobId, after, call }, signal), {
        endedBy: [deps.closing, call.request.signal],
        pingEveryMs: deps.pingEveryMs,
        onFailure: (error) => deps.log.error({ err: error, job_id: jobId }, "event stream failed"),
      }),
    );
  },
});

type Reading = { jobId: string; after: number; call: Call };

async function* encoded(
  deps: Dependencies,
  { jobId, after, call }: Reading,
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  for await (const event of deps.events.read(jobId, after, signal)) yield encodedEvent(event);
  if (signal.aborted) return;
  const { job } = await deps.getJob({ job_id: jobId }, { signal, principal: call.principal });
  if (isFinal(job.status)) yield encodeEvent({ event: "end", data: JSON.stringify({ job }) });
}

const encodedEvent = (event: JobEvent): string =>
  encodeEvent({ id: String(event.seq), event: event.type, data: JSON.stringify(event) });

/** `Last-Event-ID` is what a reader that reconnects says; the address keeps the `after` it began with. */
const position = ({ url, headers }: Request): number => {
  const query = readQuery(url);
  const unknown = [...query.keys()].find((name) => name !== "after");
  if (unknown !== undefined) throw new ServiceError("invalid_request", unknownName(unknown, ["after"]));
  const [name, text] = headers.get("last-event-id")
    ? ["Last-Event-ID", headers.get("last-event-id")]
    : ["after", query.get("after")];
  if (!/^(0|[1-9]\d{0,14})$/.test(text ?? "0")) {
    throw new ServiceError("invalid_request", `${name}: must be the number of an event, 0 or more`);
  }
  return Number(text ?? "0");
};
