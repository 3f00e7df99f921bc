import fc from "fast-check";
import { describe, expect, test } from "vitest";
import protobufjs from "protobufjs/minimal.js";
import { ServiceError } from "../contract/errors.ts";
import { encodeLogs, sampleRequest, variedAttributes, type Encoding } from "./otlp.fixture.ts";
import { batchOf, signals, type Signal } from "./otlp.ts";
import { decodeProtobuf } from "./otlp-protobuf.ts";

const now = new Date("2026-03-02T09:00:00Z");
const at = "2026-03-02T08:00:00.123Z";

const decode = (encoding: Encoding, signal: Signal, bytes: Uint8Array) =>
  batchOf(
    signal,
    encoding === "json"
      ? JSON.parse(Buffer.from(bytes).toString())
      : decodeProtobuf(signal, bytes, 1_000_000),
    now,
  );

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

describe.each<Encoding>(["json", "protobuf"])("what an official exporter sends as %s", (encoding) => {
  test("metrics become points, with what kind of sum they are", () => {
    const { metrics, events, spans } = decode(encoding, "metrics", sampleRequest(encoding, "metrics"));
    const origin = { jobId: "job-1", sessionId: "session-1", at, unit: "USD" };
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
    const { events } = decode(encoding, "logs", sampleRequest(encoding, "logs"));
    const ids = { traceId: "0123456789abcdef0123456789abcdef", spanId: "0123456789abcdef" };
    expect(events).toEqual([
      {
        jobId: "job-1",
        sessionId: "session-1",
        at,
        name: "tool_result",
        severity: "INFO",
        body: "claude_code.tool_result",
        ...ids,
        attributes: { ...common, ...variedAttributes, "resource.os": "linux", bytes: "AP8H" },
      },
      {
        jobId: "job-1",
        sessionId: null,
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
    const { spans } = decode(encoding, "traces", sampleRequest(encoding, "traces"));
    const first = {
      jobId: "job-1",
      sessionId: null,
      traceId: "0123456789abcdef0123456789abcdef",
      spanId: "00000000000000a1",
      parentSpanId: null,
      name: "claude_code.tool",
      startedAt: at,
      endedAt: "2026-03-02T08:00:01.123Z",
      status: "unset",
      attributes: { ...common, os: "linux", tool: "Bash" },
    };
    const second = { spanId: "00000000000000a2", parentSpanId: "00000000000000a1", status: "error" };
    expect(spans).toEqual([first, { ...first, ...second }]);
  });

  test("10,000 records are taken, and one more is too many", () => {
    const many = (count: number) =>
      encodeLogs(
        encoding,
        Array.from({ length: count }, () => ({ attributes: {} })),
      );
    expect(decode(encoding, "logs", many(10_000)).events).toHaveLength(10_000);
    const { status, message } = fault(() => decode(encoding, "logs", many(10_001)));
    expect([status, message]).toEqual([
      413,
      "The request has more than 10,000 records; send smaller batches",
    ]);
  });
});

test("both encodings of any attributes give the same batch", () => {
  const double = fc.double().filter((number) => !Number.isInteger(number) || Number.isSafeInteger(number));
  const value = fc.oneof(fc.string({ unit: "grapheme" }), fc.boolean(), fc.maxSafeInteger(), double);
  const attributes = fc.dictionary(fc.string({ unit: "grapheme" }), fc.oneof(value, fc.array(value)));
  fc.assert(
    fc.property(fc.array(attributes, { maxLength: 4 }), (given) => {
      const records = given.map((one) => ({ attributes: one }));
      const [json, protobuf] = (["json", "protobuf"] as const).map((encoding) =>
        decode(encoding, "logs", encodeLogs(encoding, records)),
      );
      // JSON of exporters says null where a number is not finite.
      const finite = JSON.stringify(protobuf).replaceAll(/"(NaN|-?Infinity)"/g, "null");
      expect(JSON.parse(finite)).toEqual(JSON.parse(JSON.stringify(json)));
    }),
  );
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
    jobId: null,
    sessionId: null,
    at,
    name: "",
    severity: "WARN",
    body: "",
    traceId: null,
    spanId: null,
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

const protobuf = (signal: Signal, bytes: Uint8Array) => () => decodeProtobuf(signal, bytes, 1000);

test.each(signals)(
  "%s that are torn anywhere, or have a byte changed, fail with 400 or not at all",
  (signal) => {
    const whole = sampleRequest("protobuf", signal);
    const statusOf = (bytes: Uint8Array): number => {
      try {
        batchOf(signal, protobuf(signal, bytes)(), now);
        return 200;
      } catch (error) {
        return error instanceof ServiceError ? error.status : 500;
      }
    };
    const torn = Array.from({ length: whole.length - 1 }, (_, at) => statusOf(whole.subarray(0, at + 1)));
    expect(new Set(torn)).toEqual(new Set([400]));
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), (position, byte) => {
        const changed = Uint8Array.from(whole);
        changed[position] = byte;
        expect([200, 400]).toContain(statusOf(changed));
      }),
      { numRuns: 500 },
    );
  },
);

test("protobuf that is nested deeply, has too many fields or a length beyond its end is refused", () => {
  const wrapped = (number: number, bytes: Uint8Array) =>
    protobufjs.Writer.create()
      .uint32((number << 3) | 2)
      .bytes(bytes)
      .finish();
  let value = wrapped(1, Buffer.from("x"));
  for (let depth = 0; depth < 60; depth += 1) value = wrapped(5, wrapped(1, value));
  const deep = wrapped(1, wrapped(2, wrapped(2, wrapped(5, value))));
  expect(fault(protobuf("logs", deep))).toMatchObject({
    status: 400,
    message: expect.stringContaining("nested more than 100 levels deep"),
  });
  const empty = Buffer.from("0a00".repeat(1001), "hex");
  expect(fault(protobuf("logs", empty))).toMatchObject({
    status: 413,
    message: expect.stringContaining("more than 1,000 fields"),
  });
  expect(fault(protobuf("logs", Buffer.from("0affffffff0f00", "hex"))).status).toBe(400);
  const groups = Buffer.from("0b".repeat(900), "hex");
  expect(fault(protobuf("logs", groups)).status).toBe(400);
  expect(protobuf("logs", new Uint8Array())()).toEqual({});
});
