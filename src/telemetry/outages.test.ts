import { beforeAll, expect, test } from "vitest";
import { ask, startPostgres } from "../../test/postgres.ts";
import { until } from "../../test/until.ts";
import { operations } from "../contract/operations.ts";
import { openPostgres } from "./postgres.ts";
import { sampleBatch } from "./sink.fixture.ts";
import { createSqlSink } from "./sql-sink.ts";

const everything = operations.get_usage.input.parse({});

let server: Awaited<ReturnType<typeof startPostgres>>;
beforeAll(async () => void (server = await startPostgres()));

test("a connection that PostgreSQL ends in the middle of a batch fails this batch only; tried again it is there once", async () => {
  const url = await server.newDatabase();
  const sink = createSqlSink({ open: () => openPostgres(url), now: () => new Date() });
  const [event = expect.fail()] = sampleBatch().events;
  const batch = { metrics: [], events: Array.from({ length: 10_000 }, () => event), spans: [] };
  await sink.usage(everything);
  let failures = 0;
  for (let round = 0; round < 3; round += 1) {
    let isOver = false;
    const adding = sink
      .append(batch, String(round))
      .catch(() => (failures += 1))
      .finally(() => (isOver = true));
    while (!isOver) await ask(url, endOthers);
    await adding;
    await until(() =>
      sink.append(batch, String(round)).then(
        () => true,
        () => false,
      ),
    );
  }
  expect(failures).toBeGreaterThan(0);
  expect(await ask(url, "SELECT COUNT(*)::int AS n FROM events")).toEqual([{ n: 30_000 }]);
  await sink.close();
});

const endOthers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'svc' AND state <> 'idle'`;

test("while the database cannot be asked the answer is store_unavailable, and the next question may succeed", async () => {
  const url = await server.newDatabase();
  const port = { isOpen: false };
  const sink = createSqlSink({
    open: () => openPostgres(port.isOpen ? url : "postgres://svc@127.0.0.1:9/none"),
    now: () => new Date(),
  });
  await expect(sink.usage(everything)).rejects.toMatchObject({ code: "store_unavailable" });
  await sink.close();
  const broken = createSqlSink({
    open: () => {
      if (!port.isOpen) throw new Error("not yet");
      return openPostgres(url);
    },
    now: () => new Date(),
  });
  await expect(broken.usage(everything)).rejects.toMatchObject({ code: "store_unavailable" });
  port.isOpen = true;
  expect((await broken.usage(everything)).count).toBe(0);
  await broken.close();
});
