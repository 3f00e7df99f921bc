import { describe, expect, test } from "vitest";
import { ServiceError } from "../contract/errors.ts";
import { encodeLogs, sampleRequest, variedAttributes } from "./otlp.fixture.ts";
import { batchOf, type Signal } from "./otlp.ts";

const now = new Date("2026-03-02T09:00:00Z");
const at = "2026-03-02T08:00:00.123Z";

const decode = (signal: Signal, bytes: Uint8Array) =>
  batchOf(signal, JSON.parse(Buffer.from(bytes).toString()), now);

const fault = (work: () => unknown): ServiceError => {
  try {
    work();
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
  throw new Error("it was taken");
};

const common = { "service.job_id": "job-1", "service.name": "claude-code" };

describe("what an official exporter sends", () => {
  test("metrics become points, with what kind of sum they are", () => {
    const { metrics, events, spans } = decode("metrics", sampleRequest("metrics"));
    const origin = { job_id: "job-1", session_id: "session-1", at, unit: "USD" };
    const attributes = { ...common, os: "linux", model: "sonnet", "session.id": "session-1" };
    const point = (name: string, value: number, more: object) => ({
      ...origin,
      name,
      value,
      attributes: { ...attributes, ...more },
    });
    expect(metrics).toEqual([
      point("cost", 0.25, { temporality: "delta" }),
      point("cost", -7, { temporality: "delta" }),
      point("seen", 12, { temporality: "cumulative" }),
      point("memory", 9_007_199_254_740_991, {}),
      point("times", 2.5, { temporality: "delta", count: 2, sum: 2.5 }),
      point("spread", 4, { temporality: "delta", count: 3, sum: 4 }),
    ]);
    expect([events, spans]).toEqual([[], []]);
  });

  test("log records become events, with attributes of every kind", () => {
    const { events } = decode("logs", sampleRequest("logs"));
    const ids = { trace_id: "0123456789abcdef0123456789abcdef", span_id: "0123456789abcdef" };
    expect(events).toEqual([
      {
        job_id: "job-1",
        session_id: "session-1",
        at,
        name: "tool_result",
        severity: "INFO",
        body: "claude_code.tool_result",
        ...ids,
        attributes: { ...common, ...variedAttributes, "resource.os": "linux", bytes: "AP8H" },
      },
      {
        job_id: "job-1",
        session_id: null,
        at,
        name: '{"a":[1]}',
        severity: "INFO",
        body: '{"a":[1]}',
        ...ids,
        attributes: { ...common, os: "linux" },
      },
    ]);
  });

  test("spans become spans", () => {
    const { spans } = decode("traces", sampleRequest("traces"));
    const first = {
      job_id: "job-1",
      session_id: null,
      trace_id: "0123456789abcdef0123456789abcdef",
      span_id: "00000000000000a1",
      parent_span_id: null,
      name: "claude_code.tool",
      started_at: at,
      ended_at: "2026-03-02T08:00:01.123Z",
      status: "unset",
      attributes: { ...common, os: "linux", tool: "Bash" },
    };
    const second = { span_id: "00000000000000a2", parent_span_id: "00000000000000a1", status: "error" };
    expect(spans).toEqual([first, { ...first, ...second }]);
  });

  test("10,000 records are taken, and one more is too many", () => {
    const many = (count: number) => encodeLogs(Array.from({ length: count }, () => ({ attributes: {} })));
    expect(decode("logs", many(10_000)).events).toHaveLength(10_000);
    const { status, message } = fault(() => decode("logs", many(10_001)));
    expect([status, message]).toEqual([
      413,
      "The request has more than 10,000 records; send smaller batches",
    ]);
  });
});

const logs = (record: object) => ({ resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] });
const event = (record: object) => batchOf("logs", logs(record), now).events[0];
const points = (kind: object) =>
  batchOf("metrics", { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "m", ...kind }] }] }] }, now)
    .metrics;

test("numbers may be strings, enums names, and what is unknown or null is left out", () => {
  const given = {
    timeUnixNano: 1_772_438_400_123_456_789n.toString(),
    severityNumber: "SEVERITY_NUMBER_WARN2",
    traceId: null,
    unknown: { more: [1] },
    attributes: [
      { key: "big", value: { intValue: "9223372036854775807" } },
      { key: "small", value: { intValue: "-5" } },
      { key: "number", value: { intValue: 5 } },
      { key: "none", value: {} },
      { key: "odd", value: { novelValue: 1 } },
      { key: "not a number", value: { doubleValue: "NaN" } },
      { key: "__proto__", value: { stringValue: "harmless" } },
    ],
  };
  expect(event(given)).toEqual({
    job_id: null,
    session_id: null,
    at,
    name: "",
    severity: "WARN",
    body: "",
    trace_id: null,
    span_id: null,
    attributes: Object.fromEntries([
      ["big", "9223372036854775807"],
      ["small", -5],
      ["number", 5],
      ["none", null],
      ["odd", null],
      ["not a number", "NaN"],
      ["__proto__", "harmless"],
    ]),
  });
  const sum = { aggregationTemporality: "AGGREGATION_TEMPORALITY_DELTA", dataPoints: [{ asInt: "7" }] };
  expect(points({ sum })).toMatchObject([{ value: 7, attributes: { temporality: "delta" } }]);
  expect(points({ sum: { ...sum, aggregationTemporality: "constructor" } })[0]?.attributes).toEqual({});
});

test("a record without a time has that of its arrival", () => {
  expect(event({})?.at).toBe(now.toISOString());
  expect(event({ timeUnixNano: "0", observedTimeUnixNano: "1772438400123000000" })?.at).toBe(at);
});

test.each<[unknown, string]>([
  [[], "The request must be an object"],
  ["text", "The request must be an object"],
  [{ resourceLogs: {} }, "resourceLogs must be an array"],
  [{ resourceLogs: [7] }, "an item of resourceLogs must be an object"],
  [{ resourceLogs: [{ resource: [] }] }, "resource must be an object"],
  [logs({ timeUnixNano: "soon" }), "timeUnixNano must be a number"],
  [logs({ timeUnixNano: "-1000000" }), "timeUnixNano must be nanoseconds since 1970"],
  [logs({ timeUnixNano: 1e300 }), "timeUnixNano must be nanoseconds since 1970"],
  [logs({ traceId: "xyz" }), "traceId must be at most 16 bytes in hexadecimal"],
  [logs({ traceId: "a".repeat(33) }), "traceId must be at most 16 bytes in hexadecimal"],
  [logs({ severityText: 9 }), "severityText must be a string"],
  [logs({ body: "text" }), "body must be an object"],
  [logs({ attributes: [{ key: 1 }] }), "key must be a string"],
  [logs({ attributes: [{ key: "a", value: { stringValue: 1 } }] }), "stringValue must be a string"],
  [logs({ attributes: [{ key: "a", value: { intValue: "1; DROP" } }] }), "intValue must be a number"],
])("%j is refused with what it must be", (request, expected) => {
  const { status, message } = fault(() => batchOf("logs", request, now));
  expect([status, message]).toEqual([400, `The body is not OTLP: ${expected}`]);
});

test("a large resource may not be multiplied by many small records", () => {
  const attributes = [{ key: "a", value: { stringValue: "x".repeat(1_000_000) } }];
  const request = (count: number) => ({
    resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords: Array(count).fill({}) }] }],
  });
  expect(batchOf("logs", request(50), now).events).toHaveLength(50);
  expect(fault(() => batchOf("logs", request(100), now)).status).toBe(413);
});
