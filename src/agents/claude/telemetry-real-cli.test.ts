import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runFake } from "../../../test/fake-agent/run.ts";
import { afterFile } from "../../../test/cleanup.ts";
import { bothClis } from "../../../test/agent-clis.ts";
import { startFakeModel, type FakeModel } from "../../../test/fake-model/fake-model.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { Hono } from "hono";
import { serveRoutes } from "../../http/app.ts";
import { otlpRoutes } from "../../http/otlp-routes.ts";
import { listen } from "../../http/server.ts";
import { createLog } from "../../lib/log.ts";
import type { TelemetryBatch } from "../../telemetry/sink.ts";

/** The real CLI reports to the receiver; only the model is scripted. */
let model: FakeModel;
beforeAll(async () => {
  model = await startFakeModel({ token: "model-token" });
});
afterAll(() => model.close());

const token = "token-of-this-start";

/** The receiver, behind a door that keeps what it lets through. */
const startReceiver = async () => {
  const requests: { path: string; body: string; status: number }[] = [];
  const stored: TelemetryBatch = { metrics: [], events: [], spans: [] };
  const log = createLog("silent", (text) => text);
  const routes = otlpRoutes({
    token,
    apiKeys: [],
    store: async ({ metrics, events, spans }) => {
      stored.metrics.push(...metrics);
      stored.events.push(...events);
      stored.spans.push(...spans);
    },
  });
  const settings = { host: "127.0.0.1", apiKeys: [] };
  const receiver = serveRoutes(routes, { settings, log, newRequestId: () => "request" });
  const recording = new Hono();
  recording.all("*", async (context) => {
    const body = await context.req.raw.clone().text();
    const response = await receiver.fetch(context.req.raw, context.env);
    requests.push({ path: context.req.path, body, status: response.status });
    return response;
  });
  const server = await listen(recording, { host: "127.0.0.1", port: 0 });
  afterFile(() => server.close(0));
  return { url: server.url, requests, stored };
};

const runWith =
  (agentCliBinary: string) =>
  async (endpoint: string, options: { isNamed?: boolean; env?: NodeJS.ProcessEnv } = {}) => {
    let resultAt = 0;
    const task = 'scenario: bash {"command": "echo something"}';
    const { outcome, events } = await runFake(task, {
      directory: await temporaryDirectory(),
      settings: {
        agentCliBinary,
        modelBaseUrl: model.url.replace("127.0.0.1", "localhost"),
        modelAuthToken: "model-token",
        otelEnabled: endpoint !== "",
        otelEndpoint: options.isNamed === true ? endpoint : null,
        otelProtocol: options.isNamed === true ? "http" : null,
      },
      launch: { bypassPermissions: true, args: ["--model", "sonnet", "--dangerously-skip-permissions"] },
      env: { GIT_CONFIG_GLOBAL: "/dev/null", ...options.env },
      receiver: { endpoint: `${endpoint}/otlp`, token },
      onEvent: (event) => event.type === "result" && (resultAt = performance.now()),
    });
    expect(outcome).toMatchObject({ ok: true });
    return { exitAfterResultMs: performance.now() - resultAt, events };
  };

/** How often a key is in a tree of JSON, or how many items its arrays have. */
const tally = (value: unknown, key: string): number => {
  if (typeof value !== "object" || value === null) return 0;
  return Object.entries(value)
    .map(([name, inner]) => (name === key && Array.isArray(inner) ? inner.length : tally(inner, key)))
    .reduce((sum, one) => sum + one, 0);
};

/** Takes connections and never answers. */
const blackHole = async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.on("error", () => undefined).resume();
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await promise;
  afterFile(() => void server.close());
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  return { url: `http://127.0.0.1:${port}`, connections: () => connections };
};

describe.each(bothClis)("$which CLI", ({ cli }) => {
  const run = runWith(cli);

  test("every metric, log record and span that the agent sends is stored; a proxy in its environment is not asked to reach the receiver", async () => {
    const { url, requests, stored } = await startReceiver();
    const proxy = await blackHole();
    await run(url, { env: { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url, NO_PROXY: "localhost" } });
    expect(proxy.connections()).toBe(0);
    expect(requests.filter(({ status }) => status !== 200)).toEqual([]);
    expect(new Set(requests.map(({ path }) => path))).toEqual(
      new Set(["/otlp/v1/metrics", "/otlp/v1/logs", "/otlp/v1/traces"]),
    );
    const sent = requests.map(({ body }) => JSON.parse(body) as unknown);
    const count = (key: string) => sent.reduce((sum: number, body) => sum + tally(body, key), 0);
    const { metrics, events, spans } = stored;
    expect([metrics.length, events.length, spans.length]).toEqual([
      count("dataPoints"),
      count("logRecords"),
      count("spans"),
    ]);
    expect(metrics.length * events.length * spans.length).toBeGreaterThan(0);
    for (const record of [...stored.metrics, ...stored.events, ...stored.spans]) {
      expect(record.job_id).toMatch(/^[\da-f-]{36}$/);
      expect(record.attributes).toMatchObject({ profile: "code", pod: "test-pod" });
      expect(record.session_id).toMatch(/^[\da-f-]{36}$/);
    }
    const cost = stored.metrics.find(({ name }) => name === "claude_code.cost.usage");
    expect(cost).toMatchObject({ unit: "USD", attributes: { temporality: "delta" } });
    expect(cost?.value).toBeGreaterThan(0);
  });

  test("an agent whose collector hangs exits as soon after its result as one without telemetry", async () => {
    const hanging = await blackHole();
    const longer: number[] = [];
    // A busy machine may hold up one of them.
    do {
      const without = await run("");
      const held = await run(hanging.url, { isNamed: true });
      longer.push(held.exitAfterResultMs - without.exitAfterResultMs);
    } while (Math.min(...longer) >= 1500 && longer.length < 3);
    expect(hanging.connections()).toBeGreaterThan(0);
    expect(Math.min(...longer)).toBeLessThan(1500);
  });
});
