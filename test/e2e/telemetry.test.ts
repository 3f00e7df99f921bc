import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { initialize, startRaw, submit } from "../../src/main/stdio.fixture.ts";
import { asks } from "../asks.ts";
import { startFakeModel, type FakeModel } from "../fake-model/fake-model.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

/** The service with the real agent CLI, which reports to it; only the model is scripted. */
let model: FakeModel;
let env: Record<string, string>;

beforeAll(async () => {
  model = await startFakeModel({ token: "model-token" });
  env = {
    SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "../../node_modules/.bin/claude"),
    MODEL_API_BASE_URL: model.url,
    MODEL_API_AUTH_TOKEN: "model-token",
    SERVICE_OTEL_ENABLED: "true",
    SERVICE_LOG_LEVEL: "debug",
    // The agents tell their environment.
    SERVICE_AGENT_SANDBOX: "off",
  };
});
afterAll(() => model.close());

/** A task that shows the agent's environment, which its commands get only in part, and writes it to a file. */
const showEnvironment = async () => {
  const file = join(await temporaryDirectory(), "environment");
  const command = `tr '\\0' '\\n' < /proc/$PPID/environ | tee ${file}`;
  return { file, task: `scenario: bash ${JSON.stringify({ command })}` };
};

const readEnvironment = async (file: string): Promise<Record<string, string>> =>
  Object.fromEntries(
    (await readFile(file, "utf8"))
      .split("\n")
      .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );

const tokenIn = (environment: Record<string, string>): string =>
  /^X-Api-Key=(~[\da-f]{64})$/.exec(environment["OTEL_EXPORTER_OTLP_HEADERS"] ?? "")?.[1] ?? "";

const post = (url: string, token: string) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": token },
    body: "{}",
  });

test("a job's agent reports to the service, with a token that is good for that only and is seen nowhere", async () => {
  const service = await startService({
    env: { ...env, SERVICE_API_KEYS: "key-of-the-operator", SERVICE_OTLP_TOKEN: "token-of-the-collector" },
  });
  const { file, task } = await showEnvironment();
  const job = await asks(service).run({ task });
  expect(job.status).toBe("succeeded");
  const environment = await readEnvironment(file);
  const token = tokenIn(environment);
  expect(token).toHaveLength(65);
  expect(environment["OTEL_EXPORTER_OTLP_ENDPOINT"]).toBe(`${service.url}/otlp`);

  const lines = service.output.stderr.split("\n").filter((line) => line.includes("/otlp/v1/"));
  const requests = lines.map((line) => JSON.parse(line) as { path: string; status: number; records: number });
  expect(new Set(requests.map(({ path }) => path.split("/").at(-1)))).toEqual(
    new Set(["metrics", "logs", "traces"]),
  );
  for (const { status, records } of requests) expect([status, records > 0]).toEqual([200, true]);

  const database = new DatabaseSync(join(service.home, ".service/jobs/telemetry.db"), { readOnly: true });
  const rows = (table: string) => database.prepare(`SELECT * FROM ${table} WHERE job_id = ?`).all(job.id);
  const tables = ["metrics", "events", "spans"];
  await until(() => tables.every((table) => rows(table).length > 0));
  expect(JSON.stringify(tables.map(rows))).not.toContain(token);
  // The agent's spans are in the trace of its job.
  const trace = job.id.replaceAll("-", "");
  expect(new Set(rows("spans").map(({ trace_id }) => trace_id))).toEqual(new Set([trace]));
  database.close();

  const headers = { "x-api-key": "key-of-the-operator" };
  const events = await (await fetch(`${service.url}/jobs/${job.id}/events`, { headers })).text();
  expect(events).toContain("OTEL_EXPORTER_OTLP_HEADERS=X-Api-Key=***");
  expect(events + JSON.stringify(job) + service.output.stderr).not.toContain(token);

  expect((await post(`${service.url}/otlp/v1/logs`, token)).status).toBe(200);
  expect((await post(`${service.url}/otlp/v1/logs`, "key-of-the-operator")).status).toBe(200);
  expect((await post(`${service.url}/otlp/v1/logs`, "")).status).toBe(401);
  expect((await post(`${service.url}/otlp/v1/logs`, "token-of-the-collector")).status).toBe(200);
  for (const each of [token, "token-of-the-collector"])
    expect((await post(`${service.url}/jobs`, each)).status).toBe(401);
  const { paths } = (await (await fetch(`${service.url}/openapi.json`, { headers })).json()) as {
    paths: object;
  };
  expect(Object.keys(paths)).toEqual(expect.arrayContaining(["/otlp/v1/metrics", "/otlp/v1/traces"]));
});

test("from a sandbox it reports as well, and the token stays outside", async () => {
  const service = await startService({ env: { ...env, SERVICE_AGENT_SANDBOX: "bwrap" } });
  const command = "tr '\\0' '\\n' < /proc/$PPID/environ";
  const job = await asks(service).run({ task: `scenario: bash ${JSON.stringify({ command })}` });
  expect(job.status).toBe("succeeded");
  const events = await (await fetch(`${service.url}/jobs/${job.id}/events`)).text();
  const [, word = ""] = /OTEL_EXPORTER_OTLP_HEADERS=X-Api-Key=([0-9a-f-]{36})\b/.exec(events) ?? [];
  expect((await post(`${service.url}/otlp/v1/logs`, word)).status).toBe(401);
  expect(events).toContain("OTEL_EXPORTER_OTLP_ENDPOINT=http://service.invalid/otlp");
  const database = new DatabaseSync(join(service.home, ".service/jobs/telemetry.db"), { readOnly: true });
  const rows = (table: string) => database.prepare(`SELECT * FROM ${table} WHERE job_id = ?`).all(job.id);
  await until(() => ["metrics", "events", "spans"].every((table) => rows(table).length > 0));
  database.close();
});

test("a service on stdio has a door for telemetry only, on loopback", async () => {
  const service = startRaw(await temporaryDirectory(), env);
  await service.ask("initialize", initialize);
  const { file, task } = await showEnvironment();
  const id = await submit(service, task);
  const environment = await until(async () => {
    const read = await readEnvironment(file).catch(() => null);
    return read !== null && "OTEL_EXPORTER_OTLP_HEADERS" in read ? read : null;
  });
  const endpoint = environment["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "";
  expect(endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/otlp$/);
  expect((await post(`${endpoint}/v1/logs`, tokenIn(environment))).status).toBe(200);
  expect((await post(`${endpoint}/v1/logs`, "wrong")).status).toBe(401);
  for (const path of ["jobs", "health", "mcp"])
    expect((await fetch(new URL(path, endpoint))).status).toBe(404);
  await until(() => service.output.stderr.includes("/otlp/v1/metrics"), {
    what: `job ${id} to report`,
  });
});
