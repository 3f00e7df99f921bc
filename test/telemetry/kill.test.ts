import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { ask, startPostgres } from "../postgres.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { openSqlite } from "../../src/telemetry/sqlite.ts";

let server: Awaited<ReturnType<typeof startPostgres>>;
beforeAll(async () => void (server = await startPostgres()));

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
    await until(async () => (await service.client.get_usage({})).total.runs >= 8, { seconds: 40 });
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
