import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { batchOf } from "../../src/telemetry/otlp.ts";
import type { Span } from "../../src/telemetry/sink.ts";
import { afterFile } from "../cleanup.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runJob } from "./ended-job.ts";

type Backend = {
  url: string;
  spans: Span[];
  requests: { path: string; authorization: string | undefined; type: string | undefined }[];
  /** How the next requests are answered: a status, or never. */
  answer: { status: number | "never" };
};

/** A stand-in tracing backend, which decodes what it gets as strictly as the service's own receiver. */
const startBackend = async (): Promise<Backend> => {
  const backend: Backend = { url: "", spans: [], requests: [], answer: { status: 200 } };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { authorization, "content-type": type } = request.headers;
      backend.requests.push({ path: request.url ?? "", authorization, type });
      const { status } = backend.answer;
      if (status === "never") return;
      if (status === 200) {
        const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
        backend.spans.push(...batchOf("traces", body, new Date()).spans);
      }
      response.writeHead(status, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterFile(() => server.closeAllConnections());
  afterFile(() => new Promise<void>((resolve) => server.close(() => resolve())));
  backend.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return backend;
};

const keys = { TRACING_PUBLIC_KEY: "pk-canary-public", TRACING_SECRET_KEY: "sk-canary-secret" };

const traceOf = ({ spans }: Backend, id: string): Span[] =>
  spans.filter(({ trace_id }) => trace_id === id.replaceAll("-", ""));

/** The root comes last. */
const wholeTrace = (backend: Backend, id: string): Promise<Span[]> =>
  until(() => {
    const found = traceOf(backend, id);
    return found.some(({ parent_span_id }) => parent_span_id === null) ? found : undefined;
  });

/** One root; each other span has its parent in the trace, and lies within it. */
const checkTree = (trace: readonly Span[]): void => {
  const byId = new Map(trace.map((span) => [span.span_id, span]));
  expect(byId.size).toBe(trace.length);
  expect(trace.filter(({ parent_span_id }) => parent_span_id === null)).toHaveLength(1);
  for (const { span_id, parent_span_id, started_at, ended_at } of trace) {
    expect(span_id).toMatch(/^[0-9a-f]{16}$/);
    expect(started_at <= ended_at).toBe(true);
    if (parent_span_id === null) continue;
    const parent = byId.get(parent_span_id);
    expect(parent).toBeDefined();
    expect([started_at >= (parent?.started_at ?? ""), ended_at <= (parent?.ended_at ?? "")]).toEqual([
      true,
      true,
    ]);
  }
};

let backend: Backend;
let service: Service;
let dump: string;
let dumping: Record<string, string>;

beforeAll(async () => {
  backend = await startBackend();
  dump = join(await temporaryDirectory(), "environment");
  dumping = {
    SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "environment-agent"),
    SERVICE_AGENT_ENV: "DUMP_TO",
    DUMP_TO: dump,
    SERVICE_AGENT_SANDBOX_WRITE: dirname(dump),
  };
  service = await startService({
    env: {
      TRACING_HOST: backend.url,
      ...keys,
      AGENT_MODE: "true",
      SERVICE_OTEL_ENABLED: "true",
      ...dumping,
    },
  });
});

test("a job is one trace: its stages, the agent with tokens and cost, its turns and tool calls; it gets its context, and no key", async () => {
  const remote = await makeRemote();
  const job = await runJob(service, "Write the secret plan", { repo_url: remote.path });
  const trace = await wholeTrace(backend, job.id);
  checkTree(trace);
  const names = trace.map(({ name }) => name);
  const stages = ["queue", "fetch", "worktree", "spawn", "push", "settle"];
  expect(names).toEqual(
    expect.arrayContaining(["job", ...stages, "invoke_agent code", "chat", "execute_tool Write"]),
  );
  const named = (name: string) => trace.find((span) => span.name === name);
  const agent = named("invoke_agent code");
  expect(agent?.attributes).toMatchObject({
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.request.model": job.model,
    "gen_ai.usage.input_tokens": job.usage?.input_tokens,
    "gen_ai.usage.output_tokens": job.usage?.output_tokens,
    "gen_ai.usage.cost": job.cost_usd,
    "gen_ai.conversation.id": job.session_id,
    "service.name": "svc",
  });
  expect(named("chat")?.parent_span_id).toBe(agent?.span_id);
  expect(trace.find(({ span_id }) => span_id === named("execute_tool Write")?.parent_span_id)?.name).toBe(
    "chat",
  );
  expect(named("job")?.attributes).toMatchObject({
    "service.status": "succeeded",
    "service.profile": "code",
  });
  // Prompts are not in it unless SERVICE_OTEL_LOG_PROMPTS says so; answers and tool details are.
  expect(agent?.attributes["gen_ai.input.messages"]).toBeUndefined();
  expect(agent?.attributes["gen_ai.output.messages"]).toContain(job.output);
  expect(named("execute_tool Write")?.attributes["gen_ai.tool.call.arguments"]).toContain("file_path");

  const basic = Buffer.from("pk-canary-public:sk-canary-secret").toString("base64");
  expect(backend.requests[0]).toEqual({
    path: "/api/public/otel/v1/traces",
    authorization: `Basic ${basic}`,
    type: "application/json",
  });
  const environment = await readFile(dump, "utf8");
  expect(environment).toMatch(
    new RegExp(`^TRACEPARENT=00-${job.id.replaceAll("-", "")}-[0-9a-f]{16}-01$`, "m"),
  );
  expect(environment).not.toMatch(/TRACING_|canary/);
  const all = service.output.stderr + service.output.stdout + JSON.stringify(job);
  for (const secret of ["pk-canary-public", "sk-canary-secret", basic]) expect(all).not.toContain(secret);
});

type ChatAnswer = { choices: { message: { content: string } }[] };

test("a turn of agent mode is a trace of its own, tied to the session", async () => {
  const response = await fetch(`${service.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "default", messages: [{ role: "user", content: "scenario: chat" }] }),
  });
  expect(response.status).toBe(200);
  const root = await until(() => backend.spans.find(({ name }) => name === "invoke_agent default"));
  const trace = backend.spans.filter(({ trace_id }) => trace_id === root.trace_id);
  checkTree(trace);
  expect(root.parent_span_id).toBeNull();
  expect(root.attributes["session.id"]).toMatch(/^[0-9a-f-]{36}$/);
  expect(root.attributes["gen_ai.usage.cost"]).toEqual(expect.any(Number));
  const said = root.attributes["gen_ai.output.messages"];
  expect(said).toContain(((await response.json()) as ChatAnswer).choices[0]?.message.content);
  expect(root.attributes["gen_ai.input.messages"]).toBeUndefined();
  expect(trace.map(({ name }) => name)).toContain("chat");
});

test("prompts are in the trace when the settings allow it, tool details only then", async () => {
  const own = await startService({
    env: {
      TRACING_HOST: `${backend.url}/custom/v1/traces`,
      SERVICE_OTEL_LOG_PROMPTS: "true",
      SERVICE_OTEL_LOG_TOOL_DETAILS: "false",
      SERVICE_OTEL_ENABLED: "false",
      ...dumping,
    },
  });
  const job = await runJob(own, "Write the plan of ours");
  const trace = await wholeTrace(backend, job.id);
  const agent = trace.find(({ name }) => name.startsWith("invoke_agent"));
  expect(agent?.attributes["gen_ai.input.messages"]).toContain("Write the plan of ours");
  expect(agent?.attributes["gen_ai.output.messages"]).toContain(job.output);
  expect(JSON.stringify(trace)).not.toContain("gen_ai.tool.call.arguments");
  const { path, authorization } = backend.requests.at(-1) ?? {};
  expect([path, authorization]).toEqual(["/custom/v1/traces", undefined]);

  // SERVICE_OTEL_ENABLED=false: nothing is reported to the service, and it takes nothing.
  expect(await readFile(dump, "utf8")).not.toMatch(/^\w*(OTEL|TELEMETRY)\w*=/m);
  const headers = { "content-type": "application/json", "x-api-key": "x" };
  const given = await fetch(`${own.url}/otlp/v1/logs`, { method: "POST", headers, body: "{}" });
  expect(given.status).toBe(404);
});

test("a backend that is busy or never answers delays no job; what it does not take in time is counted as dropped", async () => {
  const asked = backend.requests.length;
  backend.answer.status = 503;
  const first = await runJob(service, "One");
  await until(() => backend.requests.length > asked);
  backend.answer.status = 200;
  checkTree(await wholeTrace(backend, first.id));
  backend.answer.status = "never";
  const second = await runJob(service, "Two");
  expect([first.status, second.status]).toEqual(["succeeded", "succeeded"]);
  expect((second.duration_ms ?? 0) < 10_000).toBe(true);
  const before = backend.requests.length;
  backend.answer.status = 400;
  await runJob(service, "Three");
  await until(() => backend.requests.length > before);
  await until(async () => {
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    return /^svc_telemetry_dropped_total\{what="spans"\} [1-9]/m.test(metrics);
  });
});
