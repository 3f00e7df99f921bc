import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { beforeAll, expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { asks } from "../asks.ts";
import { ask, startPostgres } from "../postgres.ts";
import { startService, type Service } from "../service.ts";
import { until } from "../until.ts";

let server: Awaited<ReturnType<typeof startPostgres>>;
beforeAll(async () => void (server = await startPostgres()));

const runsOf = async ({ client }: Service): Promise<number> => (await client.get_usage({})).total.runs;
const agentMode = { AGENT_MODE: "true", AGENT_MODE_WARM_PROCESSES: "0", AGENT_MODE_KEEP_ALIVE: "0" };

test("every end of a job and every turn of agent mode counts once, with its cost and caller", async () => {
  const service = await startService({ env: { ...agentMode, SERVICE_MAX_PARALLEL_JOBS: "1" } });
  const { client } = service;
  const { submit, ended, run, when } = asks(service);
  const done = await run({ task: "Do the default thing" });
  const busy = await submit({ task: "scenario: hang" });
  const waiting = await submit({ task: "never begins" });
  await when(busy.id, ({ pid }) => pid !== null, "to have its agent");
  await client.cancel_job({ job_id: waiting.id });
  await client.cancel_job({ job_id: busy.id });
  await ended(busy.id);
  const chat = { model: "sonnet", messages: [{ role: "user", content: "hello" }] };
  const response = await fetch(`${service.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(chat),
  });
  expect(response.status).toBe(200);
  const completion = await client.agent_completions({ uuid: "one", message: "hello", wait: true });
  await until(async () => (await runsOf(service)) === 5, { what: "all five runs" });
  const { rows, total } = await client.get_usage({ by: "kind" });
  expect(rows.map(({ group, runs, succeeded, cancelled }) => [group, runs, succeeded, cancelled])).toEqual([
    ["chat", 2, 2, 0],
    ["job", 3, 1, 2],
  ]);
  expect(total.cost_usd).toBeCloseTo(Number(done.cost_usd) + 2 * Number(completion.cost_usd), 6);
  expect(total.imputed_cost_usd).toBe(0);
  // The agent of chat is the profile `code` where no other is loaded.
  const byProfile = (await client.get_usage({ by: "profile" })).rows;
  expect(byProfile.map(({ group, runs }) => [group, runs])).toEqual([["code", 5]]);
  expect((await client.get_usage({ by: "key" })).rows.map(({ group }) => group)).toEqual(["open"]);
  expect(await service.stop()).toBe(0);
  // What the database has outlives the process.
  const again = await startService({ home: service.home, env: agentMode });
  expect(await runsOf(again)).toBe(5);
});

test("with a login by subscription the cost is imputed", async () => {
  const service = await startService({ env: { AGENT_CLI_OAUTH_TOKEN: "oauth-token-of-a-test" } });
  const job = await asks(service).run({ task: "Do the default thing" });
  await until(async () => (await runsOf(service)) === 1);
  const { total } = await service.client.get_usage({ profile: "code" });
  expect(total).toMatchObject({ cost_usd: 0, imputed_cost_usd: job.cost_usd });
});

test("jobs run while PostgreSQL is down, at the start and later; their rows arrive when it is up, and none twice", async () => {
  const url = await server.newDatabase();
  await server.stop();
  const env = { SERVICE_TELEMETRY_DB: url };
  const first = await startService({ env });
  expect(await asks(first).run({ task: "Do the default thing" })).toMatchObject({ status: "succeeded" });
  await expect(first.client.get_usage({})).rejects.toMatchObject({ status: 503, code: "store_unavailable" });
  await until(() => first.output.stderr.includes("cannot be booked at present"));
  await first.kill();
  await server.start();
  const second = await startService({ home: first.home, env });
  await until(async () => (await runsOf(second).catch(() => 0)) === 1, {
    what: "the run of the earlier start",
  });
  await server.stop();
  await asks(second).run({ task: "Do the default thing" });
  await server.start();
  await until(async () => (await runsOf(second).catch(() => 0)) === 2, { what: "the run during the outage" });
  expect(await second.stop()).toBe(0);
  expect(await ask(url, "SELECT COUNT(*)::int AS n FROM runs")).toEqual([{ n: 2 }]);
});

test("a turn of agent mode waits in memory while PostgreSQL is down, and is counted once", async () => {
  const url = await server.newDatabase();
  const service = await startService({ env: { ...agentMode, SERVICE_TELEMETRY_DB: url } });
  await server.stop();
  await service.client.agent_completions({ uuid: "one", message: "hello", wait: true });
  await until(() => service.output.stderr.includes("cannot be booked at present"));
  await server.start();
  await until(async () => (await runsOf(service).catch(() => 0)) === 1, { what: "the turn of the outage" });
  expect(await service.stop()).toBe(0);
  expect(await ask(url, "SELECT SUM(runs)::int AS n FROM usage_daily")).toEqual([{ n: 1 }]);
});

test("a service stops in time while PostgreSQL is down", async () => {
  const url = await server.newDatabase();
  const service = await startService({ env: { SERVICE_TELEMETRY_DB: url } });
  await server.stop();
  await asks(service).run({ task: "Do the default thing" });
  const begun = performance.now();
  expect(await service.stop()).toBe(0);
  expect(performance.now() - begun).toBeLessThan(8000);
  await server.start();
});

test("a service starts, runs jobs and stops in time with a database that never answers", async () => {
  const silent = createServer(() => undefined).listen(0, "127.0.0.1");
  afterFile(() => void silent.close());
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const service = await startService({
    env: { SERVICE_TELEMETRY_DB: `postgres://svc@127.0.0.1:${port}/none` },
  });
  expect(await asks(service).run({ task: "Do the default thing" })).toMatchObject({ status: "succeeded" });
  await expect(service.client.get_usage({})).rejects.toMatchObject({ code: "store_unavailable" });
  const begun = performance.now();
  expect(await service.stop()).toBe(0);
  expect(performance.now() - begun).toBeLessThan(8000);
});
