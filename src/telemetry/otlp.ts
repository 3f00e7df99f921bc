import { ServiceError } from "../contract/errors.ts";
import type { LoggedEvent, MetricPoint, Span, TelemetryBatch } from "./sink.ts";

/** Maps requests of OTLP exporters. Both encodings have the shape of OTLP/JSON here; nothing about it is trusted. */

export const signals = ["metrics", "logs", "traces"] as const;

export type Signal = (typeof signals)[number];

const maxRecords = 10_000;

/** Attributes of a resource are stored with each of its records: characters of JSON that this may come to. */
const maxRepeated = 67_108_864;

type Message = Record<string, unknown>;

type Resource = { attributes: Message; entries: [string, unknown][]; size: number };

/** What a record has of its own and of its resource. */
type Common = Pick<LoggedEvent, "job_id" | "session_id" | "attributes">;

/** Names of what contains what: a resource has scopes, and they have records. */
const layers = {
  metrics: ["resourceMetrics", "scopeMetrics", "metrics"],
  logs: ["resourceLogs", "scopeLogs", "logRecords"],
  traces: ["resourceSpans", "scopeSpans", "spans"],
} as const;

/**
 * @param receivedAt the time of records that have none
 * @throws ServiceError invalid_request, or body_too_large for too many records
 */
export const batchOf = (signal: Signal, request: unknown, receivedAt: Date): TelemetryBatch => {
  const batch: TelemetryBatch = { metrics: [], events: [], spans: [] };
  const received = receivedAt.toISOString();
  const [resources, scopes, records] = layers[signal];
  let count = 0;
  let repeated = 0;

  const commonOf = (record: Message, { attributes, entries, size }: Resource): Common => {
    count += 1;
    repeated += size;
    if (count > maxRecords) throw tooLarge(`${maxRecords.toLocaleString("en")} records`);
    if (repeated > maxRepeated) throw tooLarge("64 MiB once each record has its resource's attributes");
    const own = attributesOf(record, "attributes");
    // The agent repeats many of its resource's attributes in each record.
    const inherited = entries
      .filter(([name, value]) => own[name] !== value)
      .map(([name, value]) => [Object.hasOwn(own, name) ? `resource.${name}` : name, value]);
    return {
      job_id: stringOrNull(attributes["service.job_id"]),
      session_id: stringOrNull(own["session.id"] ?? attributes["session.id"]),
      attributes: { ...Object.fromEntries(inherited), ...own },
    };
  };

  for (const entry of list(object(request, "The request"), resources)) {
    const attributes = attributesOf(child(entry, "resource") ?? {}, "attributes");
    const size = JSON.stringify(attributes).length;
    const resource = { attributes, entries: Object.entries(attributes), size };
    const common = (record: Message): Common => commonOf(record, resource);
    for (const scope of list(entry, scopes))
      for (const record of list(scope, records))
        if (signal === "metrics") batch.metrics.push(...pointsOf(record, common, received));
        else if (signal === "logs") batch.events.push(eventOf(record, common(record), received));
        else batch.spans.push(spanOf(record, common(record), received));
  }
  return batch;
};

const pointsOf = (metric: Message, common: (point: Message) => Common, received: string): MetricPoint[] => {
  const name = text(metric, "name");
  const unit = text(metric, "unit");
  const points: MetricPoint[] = [];
  for (const kind of ["sum", "gauge", "histogram", "exponentialHistogram", "summary"]) {
    const data = child(metric, kind);
    if (data === null) continue;
    const temporality = temporalities.get(choice(data, "aggregationTemporality", "AGGREGATION_TEMPORALITY_"));
    for (const point of list(data, "dataPoints")) {
      const [count, sum] = [number(point, "count"), number(point, "sum")];
      const value =
        number(point, "asDouble") ?? number(point, "asInt") ?? sum ?? (count === null ? Number.NaN : 0);
      const shared = common(point);
      // Exporters send such points, without a value, for what has become stale: there is nothing to store.
      if (!Number.isFinite(value)) continue;
      const attributes = {
        ...shared.attributes,
        ...(temporality !== undefined && { temporality }),
        ...(count !== null && { count }),
        ...(sum !== null && { sum }),
      };
      points.push({ ...shared, at: time(point, "timeUnixNano") ?? received, name, unit, value, attributes });
    }
  }
  return points;
};

const temporalities = new Map(
  Object.entries({ 1: "delta", DELTA: "delta", 2: "cumulative", CUMULATIVE: "cumulative" }),
);

const eventOf = (record: Message, common: Common, received: string): LoggedEvent => {
  const said = valueOf(child(record, "body") ?? {}) ?? "";
  const body = typeof said === "string" ? said : JSON.stringify(said);
  return {
    ...common,
    at: time(record, "timeUnixNano") ?? time(record, "observedTimeUnixNano") ?? received,
    name: stringOrNull(common.attributes["event.name"]) ?? (text(record, "eventName") || body),
    severity:
      text(record, "severityText") || severityOf(choice(record, "severityNumber", "SEVERITY_NUMBER_")),
    body,
    trace_id: id(record, "traceId"),
    span_id: id(record, "spanId"),
  };
};

const severities = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

/** `9` and `INFO` to `12` and `INFO4` are INFO. */
const severityOf = (given: string): string =>
  severities[Math.ceil(Number(given) / 4) - 1] ?? severities.find((name) => given.startsWith(name)) ?? "";

const spanOf = (span: Message, common: Common, received: string): Span => {
  const startedAt = time(span, "startTimeUnixNano") ?? received;
  return {
    ...common,
    trace_id: id(span, "traceId") ?? "",
    span_id: id(span, "spanId") ?? "",
    parent_span_id: id(span, "parentSpanId"),
    name: text(span, "name"),
    started_at: startedAt,
    ended_at: time(span, "endTimeUnixNano") ?? startedAt,
    status: statuses.get(choice(child(span, "status") ?? {}, "code", "STATUS_CODE_")) ?? "unset",
  };
};

const statuses = new Map(Object.entries({ 1: "ok", OK: "ok", 2: "error", ERROR: "error" }));

const attributesOf = (message: Message, key: string): Message =>
  Object.fromEntries(
    list(message, key).map((entry) => [text(entry, "key"), valueOf(child(entry, "value") ?? {})]),
  );

/** An `AnyValue` as JSON; what JSON cannot say exactly is a string. */
const valueOf = (any: Message): unknown => {
  const kind = Object.keys(any).find((key) => any[key] !== null && values.has(key)) ?? "";
  return values.get(kind)?.(any, kind) ?? null;
};

const values = new Map<string, (any: Message, kind: string) => unknown>([
  ["stringValue", (any, kind) => text(any, kind)],
  ["boolValue", (any, kind) => any[kind] === true],
  ["intValue", (any, kind) => exact(number(any, kind), Number.isSafeInteger, any[kind])],
  ["doubleValue", (any, kind) => exact(number(any, kind), Number.isFinite, any[kind])],
  ["bytesValue", (any, kind) => text(any, kind)],
  ["arrayValue", (any, kind) => list(child(any, kind) ?? {}, "values").map(valueOf)],
  ["kvlistValue", (any, kind) => attributesOf(child(any, kind) ?? {}, "values")],
]);

const exact = (value: number | null, isExact: (value: unknown) => boolean, given: unknown): unknown =>
  isExact(value) ? value : String(given);

/** Hexadecimal, lower case; null where there is none or all digits are zero. */
const id = (message: Message, key: string): string | null => {
  const hex = text(message, key);
  if (!/^[\da-f]{0,32}$/i.test(hex)) throw wrong(key, "at most 16 bytes in hexadecimal");
  return /^0*$/.test(hex) ? null : hex.toLowerCase();
};

/** Null: not sent, or 0, which stands for that. */
const time = (message: Message, key: string): string | null => {
  const milliseconds = Math.round((number(message, key) ?? 0) / 1e6);
  // Years of more than four digits are no ISO 8601 as databases read it.
  if (!(milliseconds >= 0 && milliseconds < 253_402_300_800_000)) throw wrong(key, "nanoseconds since 1970");
  return milliseconds === 0 ? null : new Date(milliseconds).toISOString();
};

const number = (message: Message, key: string): number | null => {
  const value = message[key];
  if (value === undefined || value === null) return null;
  if (typeof value === "number") return value;
  if (typeof value === "string" && /^(NaN|-?Infinity|-?\d+(\.\d+)?(e[+-]?\d+)?)$/i.test(value))
    return Number(value);
  throw wrong(key, "a number");
};

/** An enum's number, or its name without the prefix; empty: not sent. */
const choice = (message: Message, key: string, prefix: string): string => {
  const value = message[key];
  return typeof value === "number" ? String(value) : text(message, key).replace(prefix, "");
};

const text = (message: Message, key: string): string => {
  const value = message[key] ?? "";
  if (typeof value !== "string") throw wrong(key, "a string");
  return value;
};

const list = (message: Message, key: string): Message[] => {
  const value = message[key] ?? [];
  if (!Array.isArray(value)) throw wrong(key, "an array");
  return value.map((item) => object(item, `an item of ${key}`));
};

const child = (message: Message, key: string): Message | null =>
  message[key] === undefined || message[key] === null ? null : object(message[key], key);

const object = (value: unknown, what: string): Message => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw wrong(what, "an object");
  return value as Message;
};

const stringOrNull = (value: unknown): string | null =>
  typeof value === "string" && value !== "" ? value : null;

const wrong = (what: string, expected: string): ServiceError =>
  new ServiceError("invalid_request", `The body is not OTLP: ${what} must be ${expected}`);

const tooLarge = (what: string): ServiceError =>
  new ServiceError("body_too_large", `The request has more than ${what}; send smaller batches`);
