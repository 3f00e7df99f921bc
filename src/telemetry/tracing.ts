import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer";
import type { Settings } from "../config/variables.ts";
import type { Span } from "./sink.ts";

type TracingSettings = Pick<
  Settings,
  "tracingHost" | "tracingPublicKey" | "tracingSecretKey" | "tracingBasicAuth"
>;

export type TracingBackend = { url: string; authorization: string | null };

/** Null: tracing is off. */
export const tracingBackend = (settings: TracingSettings): TracingBackend | null => {
  const { tracingHost, tracingPublicKey, tracingSecretKey, tracingBasicAuth } = settings;
  if (tracingHost === null) return null;
  const keys =
    tracingPublicKey === null || tracingSecretKey === null
      ? tracingBasicAuth
      : Buffer.from(`${tracingPublicKey}:${tracingSecretKey}`).toString("base64");
  const host = new URL(tracingHost);
  // A host alone is one of Langfuse; an address with a path is any OTLP endpoint.
  const url = host.pathname === "/" ? new URL(vendorPath, host) : host;
  return { url: url.href, authorization: keys === null ? null : `Basic ${keys}` };
};

const vendorPath = "/api/public/otel/v1/traces";

/** Refused for good: the same request would be refused again. */
class RefusedTrace extends Error {
  override name = "RefusedTrace";
  readonly permanent = true;
}

const timeoutMs = 30_000;

/**
 * Sends spans by OTLP over HTTP.
 * @throws RefusedTrace; another Error when the backend is unreachable or has too much to do
 */
export const sendSpans = async (
  { url, authorization }: TracingBackend,
  spans: readonly Span[],
  service: { name: string; version: string },
): Promise<void> => {
  const resource = { attributes: { "service.name": service.name, "service.version": service.version } };
  const body = JsonTraceSerializer.serializeRequest(spans.map((span) => readable(span, resource)));
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(authorization !== null && { authorization }),
    },
    body: body as Uint8Array<ArrayBuffer>,
    redirect: "error",
    signal: AbortSignal.timeout(timeoutMs),
  });
  const said = await beginningOf(response);
  if (response.ok) return;
  const message = `The tracing backend answered ${response.status}: ${said}`;
  if (response.status >= 500 || [408, 425, 429].includes(response.status)) throw new Error(message);
  throw new RefusedTrace(message);
};

/** A backend may answer anything, without an end too. */
const beginningOf = async ({ body }: Response): Promise<string> => {
  let said = "";
  for await (const chunk of body ?? []) {
    said += Buffer.from(chunk).toString();
    if (said.length >= 500) break;
  }
  return said.slice(0, 500);
};

type Readable = Parameters<typeof JsonTraceSerializer.serializeRequest>[0][number];

const statusCodes: Record<string, number> = { ok: 1, error: 2 };

/** As the official SDK has a finished span. */
const readable = (span: Span, resource: { attributes: Record<string, string> }): Readable => {
  const { traceId, spanId, parentSpanId, name, status, attributes } = span;
  const [start, end] = [timeOf(span.startedAt), timeOf(span.endedAt)];
  const contextOf = (id: string) => ({ traceId, spanId: id, traceFlags: 1 });
  return {
    name,
    kind: 0,
    spanContext: () => contextOf(spanId),
    ...(parentSpanId !== null && { parentSpanContext: contextOf(parentSpanId) }),
    startTime: start,
    endTime: end,
    status: { code: statusCodes[status] ?? 0 },
    attributes: attributes as Readable["attributes"],
    links: [],
    events: [],
    duration: [0, 0],
    ended: true,
    resource: resource as unknown as Readable["resource"],
    instrumentationScope: { name: "svc" },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
};

/** Seconds and nanoseconds. */
const timeOf = (iso: string): [number, number] => {
  const ms = Date.parse(iso);
  return [Math.floor(ms / 1000), (ms % 1000) * 1_000_000];
};
