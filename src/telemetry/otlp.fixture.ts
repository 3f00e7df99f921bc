import {
  JsonLogsSerializer,
  JsonMetricsSerializer,
  JsonTraceSerializer,
} from "@opentelemetry/otlp-transformer";
import type { Signal } from "./otlp.ts";

/** Requests as the official exporters send them. */

type Metrics = Parameters<typeof JsonMetricsSerializer.serializeRequest>[0];
type Logs = Parameters<typeof JsonLogsSerializer.serializeRequest>[0];
type Spans = Parameters<typeof JsonTraceSerializer.serializeRequest>[0];
type Attributes = Logs[number]["attributes"];

const resource = (attributes: object) => ({ attributes }) as Logs[number]["resource"];

const jobResource = resource({ "service.job_id": "job-1", "service.name": "claude-code", os: "linux" });

const scope = { name: "com.example", version: "1" };

/** 2026-03-02T08:00:00.123Z, as the SDK has times. */
const at: [number, number] = [1_772_438_400, 123_456_789];

export const encodeLogs = (records: { attributes: Attributes; body?: unknown }[]) =>
  JsonLogsSerializer.serializeRequest(
    records.map(({ attributes, body }) => ({
      hrTime: at,
      hrTimeObserved: at,
      spanContext: { traceId: "0123456789abcdef0123456789ABCDEF", spanId: "0123456789abcdef", traceFlags: 1 },
      severityText: "INFO",
      severityNumber: 9,
      body: (body ?? "claude_code.tool_result") as string,
      resource: jobResource,
      instrumentationScope: scope,
      attributes,
      droppedAttributesCount: 0,
    })) as unknown as Logs,
  ) as Uint8Array;

const metric = (name: string, dataPointType: number, dataPoints: object[], more: object = {}) => ({
  descriptor: { name, unit: "USD", description: "", valueType: 1, type: "COUNTER", advice: {} },
  aggregationTemporality: 0,
  dataPointType,
  isMonotonic: true,
  dataPoints: dataPoints.map((point) => ({
    startTime: at,
    endTime: at,
    attributes: { model: "sonnet", "session.id": "session-1" },
    ...point,
  })),
  ...more,
});

const buckets = { boundaries: [1, 2], counts: [1, 1, 0] };

const exponential = { scale: 2, zeroCount: 0, min: 1, max: 2 };

const metrics = {
  resource: jobResource,
  scopeMetrics: [
    {
      scope,
      metrics: [
        metric("cost", 3, [{ value: 0.25 }, { value: -7 }]),
        metric("seen", 3, [{ value: 12 }], { aggregationTemporality: 1 }),
        metric("memory", 2, [{ value: 9_007_199_254_740_991 }]),
        metric("stale", 2, [{ value: Number.NaN }]),
        metric("times", 0, [{ value: { buckets, count: 2, sum: 2.5, min: 1, max: 1.5 } }]),
        metric("spread", 1, [
          {
            value: {
              ...exponential,
              count: 3,
              sum: 4,
              positive: { offset: 1, bucketCounts: [1, 2] },
              negative: { offset: 0, bucketCounts: [] },
            },
          },
        ]),
      ],
    },
  ],
} as unknown as Metrics;

const span = (spanId: string, more: object) => ({
  name: "claude_code.tool",
  kind: 0,
  spanContext: () => ({ traceId: "0123456789abcdef0123456789abcdef", spanId, traceFlags: 1 }),
  startTime: at,
  endTime: [at[0] + 1, at[1]],
  status: { code: 0 },
  attributes: { tool: "Bash" },
  links: [],
  events: [{ time: at, name: "something", attributes: { more: 1 } }],
  duration: [1, 0],
  ended: true,
  resource: jobResource,
  instrumentationScope: scope,
  droppedAttributesCount: 0,
  droppedEventsCount: 0,
  droppedLinksCount: 0,
  ...more,
});

const spans = [
  span("00000000000000a1", {}),
  span("00000000000000a2", {
    status: { code: 2, message: "it failed" },
    parentSpanContext: { traceId: "0123456789abcdef0123456789abcdef", spanId: "00000000000000a1" },
  }),
] as unknown as Spans;

/** Attributes of every kind that an exporter sends. */
export const variedAttributes = {
  "event.name": "tool_result",
  "session.id": "session-1",
  os: "of the record",
  "service.name": "claude-code",
  text: "Wörter \u0000 and 🎈",
  yes: true,
  no: false,
  whole: 42,
  negative: -42,
  fraction: 0.1,
  list: ["a", 1, true],
  nested: { deep: { deeper: [{ deepest: 1 }] } },
  bytes: new Uint8Array([0, 255, 7]),
  __proto__of: "x",
  constructor: "y",
} as unknown as Attributes;

/** A request of each signal. */
export const sampleRequest = (signal: Signal): Uint8Array => {
  switch (signal) {
    case "metrics":
      return JsonMetricsSerializer.serializeRequest(metrics) as Uint8Array;
    case "traces":
      return JsonTraceSerializer.serializeRequest(spans) as Uint8Array;
    case "logs":
      return encodeLogs([{ attributes: variedAttributes }, { attributes: {}, body: { a: [1] } }]);
  }
};
