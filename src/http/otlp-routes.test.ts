import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createLog } from "../lib/log.ts";
import { encodeLogs, sampleRequest } from "../telemetry/otlp.fixture.ts";
import { signals, type Signal } from "../telemetry/otlp.ts";
import type { TelemetryBatch } from "../telemetry/sink.ts";
import { until } from "../../test/until.ts";
import { serveRoutes } from "./app.ts";
import { otlpRoutes } from "./otlp-routes.ts";
import { listen, type Listening } from "./server.ts";

const token = "token-of-this-start";
const json = "application/json";

let server: Listening;
let stored: TelemetryBatch[];
let store: (batch: TelemetryBatch) => Promise<void>;

beforeEach(async () => {
  stored = [];
  store = async (batch) => void stored.push(batch);
  const log = createLog("silent", (text) => text);
  const settings = { host: "127.0.0.1", apiKeys: ["key-of-a-collector"] };
  const routes = otlpRoutes({ token, apiKeys: settings.apiKeys, store: (batch) => store(batch) });
  const app = serveRoutes(routes, { settings, log, newRequestId: () => "request-1" });
  server = await listen(app, { host: "127.0.0.1", port: 0 });
});
afterEach(() => server.close(0));

type Sending = {
  body: Uint8Array | string;
  type?: string;
  signal?: Signal;
  headers?: Record<string, string>;
};

const send = async ({ body, type = json, signal = "logs", headers = {} }: Sending) => {
  const response = await fetch(`${server.url}/otlp/v1/${signal}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": type, ...headers },
    body: body as string,
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  return { status: response.status, headers: response.headers, bytes, text: Buffer.from(bytes).toString() };
};

const counted = ({ metrics, events, spans }: TelemetryBatch) => [metrics.length, events.length, spans.length];

test.each(signals)("%s are stored once and answered", async (signal) => {
  const body = sampleRequest(signal);
  for (const [sent, headers] of [
    [body, {}],
    [gzipSync(body), { "content-encoding": "gzip" }],
  ] as const) {
    const { status, headers: answered, text } = await send({ body: sent, signal, headers });
    expect([status, answered.get("content-type"), text]).toEqual([200, json, "{}"]);
  }
  expect(stored.map(counted)).toEqual(
    Array(2).fill({ metrics: [6, 0, 0], logs: [0, 2, 0], traces: [0, 0, 2] }[signal]),
  );
  expect(stored[0]).toEqual(stored[1]);
});

test("what cannot be decoded is 400, which exporters do not send again", async () => {
  const { status, headers, text } = await send({ body: "{ not OTLP" });
  expect([status, headers.get("content-type"), headers.get("retry-after")]).toEqual([400, json, null]);
  expect(JSON.parse(text)).toEqual({ message: expect.stringContaining("not valid JSON") });
  expect(stored).toEqual([]);
});

test("a store that cannot be reached is 503 with Retry-After, so that exporters send again", async () => {
  store = () => Promise.reject(new Error("connection refused"));
  const { status, headers, text } = await send({ body: sampleRequest("logs") });
  expect([status, headers.get("retry-after")]).toEqual([503, "1"]);
  expect(text).toContain("The telemetry could not be stored; send it again shortly");
  expect(text).not.toContain("refused");
});

test("too many records are 413", async () => {
  const records = Array.from({ length: 10_001 }, () => ({ attributes: {} }));
  const { status, text } = await send({ body: encodeLogs(records) });
  expect([status, text]).toEqual([413, expect.stringContaining("more than 10,000 records")]);
});

test("the token of this start and the service's keys are let in, and nobody else", async () => {
  const ask = async (headers: Record<string, string>) => (await send({ body: "{}", headers })).status;
  expect(await ask({})).toBe(200);
  expect(await ask({ authorization: "", "x-api-key": "key-of-a-collector" })).toBe(200);
  expect(await ask({ authorization: "Bearer key-of-a-collector" })).toBe(200);
  for (const authorization of [
    "",
    "Bearer",
    `Bearer ${token}x`,
    `Bearer ${token.slice(1)}`,
    `Basic ${token}`,
  ])
    expect(await ask({ authorization })).toBe(401);
  const { headers, text } = await send({ body: "{}", headers: { authorization: "Bearer wrong" } });
  expect(headers.get("www-authenticate")).toBe("Bearer");
  expect(JSON.parse(text)).toEqual({ message: "Invalid or missing API key" });
  // The token opens nothing else.
  const elsewhere = await fetch(`${server.url}/jobs`, { headers: { authorization: `Bearer ${token}` } });
  expect(elsewhere.status).toBe(401);
});

test("other types and compressions are 415 with what to send", async () => {
  const body = "{}";
  for (const type of ["application/x-protobuf", "text/plain", "application/grpc", "", "application/jsonp"]) {
    const { status, headers, text } = await send({ body, type });
    expect([status, headers.get("content-type"), text]).toEqual([
      415,
      json,
      expect.stringContaining("Send OTLP/JSON, Content-Type application/json"),
    ]);
  }
  expect((await send({ body, type: "Application/JSON; charset=utf-8" })).status).toBe(200);
  const zstd = await send({ body, headers: { "content-encoding": "zstd" } });
  expect([zstd.status, zstd.text]).toEqual([415, expect.stringContaining("Content-Encoding: gzip")]);
});

test("bombs, torn and false gzip, and bodies that are too large are refused", async () => {
  const gzip = async (body: Uint8Array) => {
    const { status, text } = await send({ body, headers: { "content-encoding": "gzip" } });
    return `${status} ${(JSON.parse(text) as { message: string }).message}`;
  };
  expect(await gzip(gzipSync(Buffer.alloc(200_000_000, " ")))).toMatch(
    /^413 .* 33,554,432 bytes when it is unpacked/,
  );
  const torn = gzipSync(sampleRequest("logs"));
  expect(await gzip(torn.subarray(0, torn.length - 9))).toBe("400 The body is not valid gzip");
  expect(await gzip(Buffer.from("{}"))).toBe("400 The body is not valid gzip");
  const compressed = await gzip(Buffer.alloc(4_194_305, 7)).catch(() => "413 4,194,304");
  expect(compressed).toMatch(/^413 .*4,194,304/);
  const large = await send({ body: Buffer.alloc(33_554_433, " ") }).catch(() => ({ status: 413 }));
  expect(large.status).toBe(413);
  expect(stored).toEqual([]);
});

test.each([
  ["[".repeat(200), "nested more than 100 levels deep"],
  [`[${"1,".repeat(510_000)}1]`, "more than 500,000"],
  [`${'{"a":'.repeat(99)}1${"}".repeat(99)}`, null],
  ["[]", "must be an object"],
  ["", "empty"],
  ["{}\u0000", "not valid JSON"],
])("hostile JSON %.20s is answered", async (body, expected) => {
  const { status, text } = await send({ body });
  expect(status).toBe(expected === null ? 200 : 400);
  expect(text).toContain(expected ?? "{}");
});

test("at most eight requests are decoded and stored at once; the next are told to come again", async () => {
  const gate = Promise.withResolvers<void>();
  let storing = 0;
  store = async () => {
    storing += 1;
    await gate.promise;
  };
  const eight = Array.from({ length: 8 }, () => send({ body: "{}" }));
  await until(() => storing === 8);
  const { status, headers, text } = await send({ body: "{}" });
  expect([status, headers.get("retry-after"), text]).toEqual([503, "1", expect.stringContaining("at once")]);
  gate.resolve();
  expect((await Promise.all(eight)).map((answer) => answer.status)).toEqual(Array(8).fill(200));
  expect((await send({ body: "{}" })).status).toBe(200);
});

test("an unknown path below is answered in the form of OTLP", async () => {
  const response = await fetch(`${server.url}/otlp/v1/profiles`, {
    method: "POST",
    headers: { "x-api-key": "key-of-a-collector" },
  });
  expect(response.status).toBe(404);
  expect(await response.json()).toEqual({ message: expect.stringContaining("/otlp/v1/profiles") });
});
