import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { ask, startPostgres } from "../postgres.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { openSqlite } from "../../src/telemetry/sqlite.ts";

let server: Awaited<ReturnType<typeof startPostgres>>;
beforeAll(async () => void (server = await startPostgres()));

/** Adds 100 runs and batches and waits to be killed; prints the number of each once it is on disk. With `drain`: adds none. */
const writer = `
  import { openTelemetry } from ${JSON.stringify(join(import.meta.dirname, "../../src/main/telemetry.ts"))};
  import { sampleBatch, sampleRun } from ${JSON.stringify(join(import.meta.dirname, "../../src/telemetry/sink.fixture.ts"))};
  const [directory, url, from, drain] = process.argv.slice(1);
  const quiet = () => undefined;
  const telemetry = await openTelemetry({
    settings: { telemetryDb: url || null, telemetryRetention: 315360000 },
    directory,
    redact: (text) => text,
    now: () => new Date(),
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
  });
  for (let n = Number(from); drain !== "drain" && n < Number(from) + 100; n += 1) {
    const batch = sampleBatch();
    batch.metrics[0].name = "number " + n;
    await Promise.all([telemetry.append(batch), telemetry.addRun(sampleRun({ id: String(n) }))]);
    process.stdout.write(n + "\\n");
  }
  if (drain === "drain") await telemetry.close();
  else setInterval(quiet, 1000);
`;

const start = (...args: string[]) => {
  const child = spawn(process.execPath, ["--input-type=module", "-e", writer, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.on("data", (data: Buffer) => (text += data.toString()));
  return { child, ended: once(child, "exit"), last: () => Number(text.trimEnd().split("\n").at(-1)) };
};

const rounds = 3;

test.concurrent.each(["SQLite", "PostgreSQL"])(
  "%s: what was added is there once, however often the process is killed",
  async (name) => {
    const directory = await temporaryDirectory();
    const url = name === "SQLite" ? "" : await server.newDatabase();
    let last = 0;
    for (let round = 0; round < rounds; round += 1) {
      const { child, ended, last: written } = start(directory, url, String(last + 1));
      await until(() => written() > last + 20, { what: "some to be written" });
      await delay(Math.random() * 60);
      child.kill("SIGKILL");
      await ended;
      last = written();
      // One more may be on disk that it had no time to tell of: its number is not used again.
      last += 1;
    }
    // A start gives its stop three seconds.
    await until(async () => {
      expect(await start(directory, url, "0", "drain").ended).toEqual([0, null]);
      return (await readdir(join(directory, "telemetry"))).length === 0;
    });
    const query = async <Row>(sql: string): Promise<Row[]> => {
      if (url !== "") return (await ask(url, sql)) as Row[];
      const database = openSqlite(join(directory, "telemetry.db"));
      const rows = await database.query<Row>(sql);
      await database.close();
      return rows;
    };
    const names = (await query<{ name: string }>("SELECT name FROM metrics")).map((row) => row.name);
    expect(new Set(names).size).toBe(names.length);
    const ids = new Set((await query<{ id: string }>("SELECT id FROM runs")).map(({ id }) => id));
    const [{ runs } = expect.fail()] = await query<{ runs: unknown }>(
      "SELECT SUM(runs) AS runs FROM usage_daily",
    );
    expect(Number(runs)).toBe(ids.size);
    // At most the numbers that were skipped may be missing.
    expect(last - ids.size).toBeLessThanOrEqual(rounds);
    expect(last - names.length).toBeLessThanOrEqual(rounds);
  },
);
