import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createServer, type AddressInfo } from "node:net";
import { beforeAll, expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { asks } from "../asks.ts";
import { ask, startPostgres } from "../postgres.ts";
import { openSqlite } from "../../src/telemetry/sqlite.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
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
  // What the database has outlives the process. With a login by subscription the cost is imputed.
  const env = { ...agentMode, AGENT_CLI_OAUTH_TOKEN: "oauth-token-of-a-test" };
  const again = await startService({ home: service.home, env });
  expect(await runsOf(again)).toBe(5);
  const imputed = await asks(again).run({ task: "Do the default thing" });
  await until(async () => (await runsOf(again)) === 6);
  const later = await again.client.get_usage({ profile: "code" });
  expect(later.total.cost_usd).toBeCloseTo(total.cost_usd, 6);
  expect(later.total.imputed_cost_usd).toBe(imputed.cost_usd);
});

test("jobs and turns go on while PostgreSQL is down, at the start and later; their rows arrive when it is up, none twice, and a stop waits for none", async () => {
  const url = await server.newDatabase();
  await server.stop();
  const env = { ...agentMode, SERVICE_TELEMETRY_DB: url };
  const task = "Do the default thing";
  const first = await startService({ env });
  expect(await asks(first).run({ task })).toMatchObject({ status: "succeeded" });
  await expect(first.client.get_usage({})).rejects.toMatchObject({ status: 503, code: "store_unavailable" });
  await until(() => first.output.stderr.includes("cannot be booked at present"));
  await first.kill();
  await server.start();
  const second = await startService({ home: first.home, env });
  const untilThere = (runs: number) =>
    until(async () => (await runsOf(second).catch(() => 0)) === runs, { what: `run ${runs}` });
  await untilThere(1);
  await server.stop();
  await asks(second).run({ task });
  await second.client.agent_completions({ uuid: "one", message: "hello", wait: true });
  await until(() => second.output.stderr.includes("cannot be booked at present"));
  await server.start();
  await untilThere(3);
  await server.stop();
  await asks(second).run({ task });
  const begun = performance.now();
  expect(await second.stop()).toBe(0);
  expect(performance.now() - begun).toBeLessThan(8000);
  await server.start();
  expect(await ask(url, "SELECT COUNT(*)::int AS n FROM runs")).toEqual([{ n: 3 }]);
  expect(await ask(url, "SELECT SUM(runs)::int AS n FROM usage_daily")).toEqual([{ n: 3 }]);
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

test.concurrent.each(["SQLite", "PostgreSQL"])(
  "%s: what a job cost is booked once, however often the service is killed as jobs end",
  async (name) => {
    const home = await temporaryDirectory();
    const url = name === "SQLite" ? null : await server.newDatabase();
    const start = () => startService({ home, env: url === null ? {} : { SERVICE_TELEMETRY_DB: url } });
    for (let round = 0; round < 2; round += 1) {
      const service = await start();
      const jobs = asks(service);
      const [first = expect.fail()] = await Promise.all(
        Array.from({ length: 4 }, () => jobs.submit({ task: "Do the default thing" })),
      );
      await jobs.ended(first.id);
      await delay(Math.random() * 60);
      await service.kill();
    }
    const service = await start();
    const { jobs } = await until(async () => {
      const list = await service.client.list_jobs({ limit: 100 });
      return list.jobs.every(({ ended_at }) => ended_at !== null) ? list : null;
    });
    expect(jobs).toHaveLength(8);
    await until(async () => (await service.client.get_usage({})).total.runs >= 8);
    expect(await service.stop()).toBe(0);
    const query = async <Row>(sql: string): Promise<Row[]> => {
      if (url !== null) return (await ask(url, sql)) as Row[];
      const database = openSqlite(join(home, ".service", "jobs", "telemetry.db"));
      const rows = await database.query<Row>(sql);
      await database.close();
      return rows;
    };
    const rows = await query<{ id: string; cost_usd: number }>("SELECT id, cost_usd FROM runs");
    const costs = new Map(rows.map((row) => [row.id, Number(row.cost_usd)]));
    expect(costs).toEqual(new Map(jobs.map(({ id, cost_usd }) => [id, cost_usd ?? 0])));
    expect(rows).toHaveLength(8);
    const [sums] = await query<{ runs: unknown }>("SELECT SUM(runs) AS runs FROM usage_daily");
    expect(Number(sums?.runs)).toBe(8);
  },
);
