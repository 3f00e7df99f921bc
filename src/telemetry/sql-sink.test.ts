import { readFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { ask, startPostgres } from "../../test/postgres.ts";
import { until } from "../../test/until.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { operations } from "../contract/operations.ts";
import type { UsageInput } from "../contract/usage.ts";
import type { Database } from "./database.ts";
import { openPostgres } from "./postgres.ts";
import { migrate } from "./schema.ts";
import { sampleBatch, sampleRun } from "./sink.fixture.ts";
import type { EndedRun } from "./sink.ts";
import { createSqlSink } from "./sql-sink.ts";
import { openSqlite } from "./sqlite.ts";

const never = new AbortController().signal;
const day = 86_400_000;
const usage = (input: Partial<UsageInput>): UsageInput => operations.get_usage.input.parse(input);

let server: Awaited<ReturnType<typeof startPostgres>>;
beforeAll(async () => void (server = await startPostgres()));

const databases: Record<string, () => Promise<() => Promise<Database>>> = {
  SQLite: async () => {
    const path = join(await temporaryDirectory(), "telemetry.db");
    return async () => openSqlite(path);
  },
  PostgreSQL: async () => {
    const url = await server.newDatabase();
    return () => openPostgres(url);
  },
};

describe.each(Object.keys(databases))("%s", (name) => {
  const openSink = async (now = () => new Date("2026-03-02T12:00:00.000Z")) => {
    const open = await (databases[name] ?? expect.fail())();
    const database = await open();
    return { sink: createSqlSink({ open: () => database, now }), database, open };
  };
  const countOf = async ({ query }: Database, table: string): Promise<number> =>
    Number((await query<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`))[0]?.n);

  test("keeps every field of a batch, and a batch that comes twice once", async () => {
    const { sink, database } = await openSink();
    await sink.append(sampleBatch(), "b1");
    await sink.append(sampleBatch(), "b1");
    const [metric] = await database.query<Record<string, unknown>>("SELECT * FROM metrics");
    expect(metric).toMatchObject({ job_id: "job-1", session_id: "session-1", unit: "USD", value: 0.5 });
    expect(new Date(String(metric?.["at"])).toISOString()).toBe("2026-03-02T09:15:00.123Z");
    expect(JSON.parse(String(metric?.["attributes"]))).toEqual(sampleBatch().metrics[0]?.attributes);
    const [event] = await database.query("SELECT * FROM events");
    expect(event).toMatchObject({ name: "api_request", body: "asked", trace_id: "t1", span_id: null });
    const [span] = await database.query("SELECT * FROM spans");
    expect(span).toMatchObject({ trace_id: "t1", span_id: "s1", parent_span_id: null, status: "ok" });
    for (const table of ["metrics", "events", "spans"]) expect(await countOf(database, table)).toBe(1);
    await sink.close();
  });

  test("stores a large batch, and text that a database refuses", async () => {
    const { sink, database } = await openSink();
    const [event = expect.fail()] = sampleBatch().events;
    const odd = { "a\0b": "\ud800 \\u0000 \0", nested: ["\udfff"] };
    const events = Array.from({ length: 3000 }, (_, n) => ({ ...event, body: `${n} \0`, attributes: odd }));
    await sink.append({ metrics: [], events, spans: [] }, "b1");
    expect(await countOf(database, "events")).toBe(3000);
    const [stored] = await database.query<{ attributes: string }>("SELECT attributes FROM events");
    expect(JSON.parse(stored?.attributes ?? "")).toEqual({
      "a\ufffdb": "\ufffd \\u0000 \ufffd",
      nested: ["\ufffd"],
    });
    await sink.close();
  });

  test("a batch that can never be stored is refused for good, and leaves nothing", async () => {
    const { sink, database } = await openSink();
    const batch = sampleBatch();
    const [metric = expect.fail()] = batch.metrics;
    const broken = { ...batch, spans: [], metrics: [metric, { ...metric, name: null as unknown as string }] };
    await expect(sink.append(broken, "b1")).rejects.toMatchObject({ permanent: true });
    for (const table of ["metrics", "events", "batches"]) expect(await countOf(database, table)).toBe(0);
    await sink.close();
  });

  test.each(["principal", "profile", "ended_at"] as const)(
    "a run without `%s` is refused for good, and later ones count",
    async (field) => {
      const { sink } = await openSink();
      const { [field]: _missing, ...run } = sampleRun({ id: "incomplete" });
      await expect(sink.addRun(run as EndedRun)).rejects.toMatchObject({ permanent: true });
      await sink.addRun(sampleRun());
      expect((await sink.usage(usage({}))).total.runs).toBe(1);
      await sink.close();
    },
  );

  test("a run that comes twice, also at once, counts once", async () => {
    const { sink, database } = await openSink();
    await Promise.all([1, 2, 3].map(() => sink.addRun(sampleRun())));
    await sink.addRun(sampleRun({ cost_usd: 9 }));
    expect(await countOf(database, "runs")).toBe(1);
    const { total } = await sink.usage(usage({}));
    expect(total).toEqual({
      runs: 1,
      succeeded: 1,
      failed: 0,
      cancelled: 0,
      success_rate: 1,
      cost_usd: 0.25,
      imputed_cost_usd: 0,
      estimated_cost_usd: 0,
      input_tokens: 100,
      output_tokens: 20,
      cache_creation_input_tokens: 3,
      cache_read_input_tokens: 4000,
      turns: 6,
      duration_ms: 150_000,
    });
    await sink.close();
  });

  test("the newest runs whose agent reported a cost give a model's price; what was reckoned is told apart", async () => {
    const { sink } = await openSink();
    expect(await sink.earlierRuns("sonnet")).toBeNull();
    const endedAt = (n: number): string => new Date(Date.parse("2026-03-01") + n * 60_000).toISOString();
    for (let n = 0; n < 25; n += 1)
      await sink.addRun(sampleRun({ id: `s${n}`, ended_at: endedAt(n), cost_usd: n < 5 ? 100 : 0.5 }));
    await sink.addRun(sampleRun({ id: "unknown", ended_at: endedAt(30), cost_usd: 0 }));
    await sink.addRun(sampleRun({ id: "other", ended_at: endedAt(30), model: "opus" }));
    await sink.addRun(sampleRun({ id: "reckoned", ended_at: endedAt(30), cost_usd: 7, estimated: true }));
    const reported = sampleRun();
    expect(await sink.earlierRuns("sonnet")).toEqual({
      costUsd: 20 * 0.5,
      usage: {
        input_tokens: 20 * reported.input_tokens,
        output_tokens: 20 * reported.output_tokens,
        cache_creation_input_tokens: 20 * reported.cache_creation_tokens,
        cache_read_input_tokens: 20 * reported.cache_read_tokens,
      },
    });
    const { total } = await sink.usage(usage({}));
    expect([total.cost_usd, total.estimated_cost_usd]).toEqual([500 + 10 + 0.25 + 7, 7]);
    expect(await sink.spent({ day: "2026-03-01", imputed: false })).toBe(total.cost_usd);
    await sink.close();
  });

  test("usage groups, filters and orders; days count from midnight UTC", async () => {
    const { sink } = await openSink();
    const runs: Partial<EndedRun>[] = [
      { ended_at: "2026-03-01T23:59:59.999Z", cost_usd: 1 },
      { ended_at: "2026-03-02T00:00:00.000Z", cost_usd: 2, status: "failed", profile: "review" },
      { ended_at: "2026-03-02T01:00:00.000Z", cost_usd: 4, imputed: true, status: "cancelled", kind: "chat" },
      { ended_at: "2026-01-31T12:00:00.000Z", cost_usd: 8, status: "expired", repo_url: "" },
    ];
    for (const [n, run] of runs.entries()) await sink.addRun(sampleRun({ id: String(n), ...run }));
    const days = await sink.usage(usage({}));
    expect(days).toMatchObject({ since: "2026-02-01", until: "2026-03-02", by: "day", count: 2 });
    expect(days.rows.map(({ group, runs: n, cost_usd }) => [group, n, cost_usd])).toEqual([
      ["2026-03-01", 1, 1],
      ["2026-03-02", 2, 2],
    ]);
    expect(days.total).toMatchObject({ runs: 3, success_rate: 0.5, cost_usd: 3, imputed_cost_usd: 4 });
    const profiles = await sink.usage(usage({ by: "profile", since: "2026-01-01" }));
    expect(profiles.rows.map(({ group, failed }) => [group, failed])).toEqual([
      ["code", 1],
      ["review", 1],
    ]);
    const chat = await sink.usage(usage({ by: "kind", kind: "chat", profile: "code" }));
    expect(chat.rows).toMatchObject([{ group: "chat", success_rate: null, cancelled: 1 }]);
    expect((await sink.usage(usage({ by: "repository", until: "2026-02-01" }))).rows[0]?.group).toBe("");
    expect((await sink.usage(usage({ model: "none" }))).total).toMatchObject({ runs: 0, success_rate: null });
    await expect(sink.usage(usage({ since: "2026-03-03" }))).rejects.toMatchObject({
      code: "invalid_request",
    });
    expect(await sink.spent({ day: "2026-03-02", imputed: true })).toBe(6);
    expect(await sink.spent({ day: "2026-03-02", imputed: false, profile: "review" })).toBe(2);
    expect(await sink.spent({ day: "2026-03-02", imputed: true, principal: "other" })).toBe(0);
    await sink.close();
  });

  test("usage of a long period has each day once, whatever is asked", async () => {
    const { sink } = await openSink();
    const last = Date.parse("2026-03-02T12:00:00.000Z");
    for (let n = 0; n < 120; n += 1)
      await sink.addRun(sampleRun({ id: String(n), ended_at: new Date(last - n * day).toISOString() }));
    const all = await sink.usage(usage({ since: "0001-01-01", until: "9999-12-31" }));
    expect([all.count, new Set(all.rows.map(({ group }) => group)).size, all.total.runs]).toEqual([
      120, 120, 120,
    ]);
    expect((await sink.usage(usage({ since: "2025-12-01", by: "profile" }))).rows).toMatchObject([
      { group: "code", runs: 92, cost_usd: 23 },
    ]);
    await sink.close();
  });

  test("the roll-up is what a plain aggregate of the runs gives", async () => {
    const { sink, database } = await openSink();
    await migrate(database);
    const some = (...values: string[]) => fc.constantFrom(...values);
    const run = fc.record({
      id: fc.integer({ min: 0, max: 40 }).map(String),
      kind: some("job", "chat"),
      ended_at: some("2026-03-01T23:59:59.999Z", "2026-03-02T00:00:00.000Z", "2026-03-02T23:00:00.000Z"),
      status: some("succeeded", "failed", "cancelled", "expired"),
      profile: some("code", "o'hara", ""),
      repo_url: some("", "https://github.com/acme/app", "x".repeat(900)),
      principal: some("open", "a", ""),
      imputed: fc.boolean(),
      // Sums of these are exact, in whatever order.
      cost_usd: fc.integer({ min: 0, max: 4096 }).map((parts) => parts / 1024),
      input_tokens: fc.integer({ min: 0, max: 2 ** 40 }),
      turns: fc.nat(50),
      duration_ms: fc.nat(1_000_000),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(run, { maxLength: 12 }), async (runs) => {
        await Promise.all(runs.map((each) => sink.addRun(sampleRun(each as Partial<EndedRun>))));
        const keys = "day, kind, profile, repo_url, model, principal, status, imputed";
        const sums = [
          "cost_usd",
          "input_tokens",
          "output_tokens",
          "cache_creation_tokens",
          "cache_read_tokens",
          "turns",
          "duration_ms",
        ];
        const added = sums
          .map((column) => `CAST(SUM(${column}) AS double precision) AS ${column}`)
          .join(", ");
        const plain = `SELECT ${keys}, CAST(COUNT(*) AS double precision) AS runs, ${added} FROM runs GROUP BY ${keys} ORDER BY ${keys}`;
        const rolledUp = `SELECT ${keys}, CAST(SUM(runs) AS double precision) AS runs, ${added} FROM usage_daily GROUP BY ${keys} ORDER BY ${keys}`;
        expect(await database.query(rolledUp)).toEqual(await database.query(plain));
      }),
      { numRuns: 12 },
    );
    await sink.close();
  });

  test("the questions in docs/operate/telemetry.md can be asked", async () => {
    const { sink, database } = await openSink();
    await sink.addRun(sampleRun({ id: "job-1" }));
    await sink.addRun(sampleRun({ id: "job-2" }));
    const page = await readFile(join(import.meta.dirname, "../../docs/operate/telemetry.md"), "utf8");
    const questions = [...page.matchAll(/```sql\n([^`]*)```/g)].map(([, sql = ""]) => sql);
    const answers = await Promise.all(questions.map((sql) => database.query<Record<string, unknown>>(sql)));
    expect(answers).toMatchObject([[{ repo_url: "https://github.com/acme/app", usd: 0.5 }]]);
    await sink.close();
  });

  test("what is past its time is deleted, in steps, and the rest stays", async () => {
    const now = new Date("2026-03-02T12:00:00.000Z");
    const { sink, database } = await openSink(() => now);
    const at = (days: number): string => new Date(now.getTime() - days * day).toISOString();
    const [event = expect.fail()] = sampleBatch().events;
    const many = Array.from({ length: 2500 }, (_, n) => ({ ...event, at: n < 1500 ? at(91) : at(95) }));
    await sink.append({ metrics: [], events: many, spans: [] }, "old");
    await sink.append(sampleBatch(at(89)), "new");
    for (const days of [399, 401, 410])
      await sink.addRun(sampleRun({ id: String(days), ended_at: at(days) }));
    const before = { telemetry: new Date(at(90)), runs: new Date(at(400)) };
    await sink.prune(before, never);
    for (const table of ["metrics", "events", "spans", "runs", "usage_daily"])
      expect([table, await countOf(database, table)]).toEqual([table, 1]);
    await sink.close();
  });

  test("several that start at once make the schema once; a later start leaves it as it is", async () => {
    const { open } = await openSink();
    const all = await Promise.all([open(), open(), open()]);
    // SQLite has one process; that it is asked at once is the part of PostgreSQL.
    if (name === "SQLite") for (const database of all) await migrate(database);
    else await Promise.all(all.map(migrate));
    const [database] = all;
    expect(await database.query("SELECT version FROM schema_version")).toEqual([{ version: 2 }]);
    await Promise.all(all.map((each) => each.close()));
  });
});

test("a connection that PostgreSQL ends in the middle of a batch fails this batch only; tried again it is there once", async () => {
  const url = await server.newDatabase();
  const sink = createSqlSink({ open: () => openPostgres(url), now: () => new Date() });
  const [event = expect.fail()] = sampleBatch().events;
  const batch = { metrics: [], events: Array.from({ length: 10_000 }, () => event), spans: [] };
  await sink.usage(usage({}));
  let failures = 0;
  for (let round = 0; round < 2; round += 1) {
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
  expect(await ask(url, "SELECT COUNT(*)::int AS n FROM events")).toEqual([{ n: 20_000 }]);
  await sink.close();
});

const endOthers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'svc' AND state <> 'idle'`;
