import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { EndedRun } from "../../src/telemetry/sink.ts";
import { createSqlSink } from "../../src/telemetry/sql-sink.ts";
import { openSqlite } from "../../src/telemetry/sqlite.ts";

/** Writes the runs of two months where a service that starts in this home finds them. */
export const storeRuns = async (home: string): Promise<void> => {
  const directory = join(home, ".service", "jobs");
  await mkdir(directory, { recursive: true });
  const sink = createSqlSink({
    open: () => openSqlite(join(directory, "telemetry.db")),
    now: () => new Date(),
  });
  // At noon, so that today's is not of yesterday; each day two, some days none.
  const today = new Date().toISOString().slice(0, 10);
  for (let back = 0; back < 60; back += 1)
    for (const half of [0, 1])
      if (back % 9 !== 4) await sink.addRun(runOf(`${today}T12:00:00.000Z`, back, half));
  await sink.close();
};

const runOf = (noon: string, back: number, half: number): EndedRun => ({
  id: `${back}-${half}`,
  kind: half === 1 && back % 5 === 0 ? "chat" : "job",
  ended_at: new Date(Date.parse(noon) - back * 86_400_000).toISOString(),
  status: (back + half) % 7 === 3 ? "failed" : "succeeded",
  failure_reason: null,
  profile: half === 0 ? "code" : "review",
  repo_url: `https://github.com/acme/${["app", "billing", "ingest"][back % 3]}`,
  model: half === 0 ? "claude-sonnet-5" : "claude-haiku-5",
  principal: "open",
  cost_usd: 0.4 + ((back * 37 + half * 11) % 50) / 20,
  imputed: false,
  estimated: back === 1,
  input_tokens: 12_000 + back * 400,
  output_tokens: 4000,
  cache_creation_tokens: 20_000,
  cache_read_tokens: 180_000,
  turns: 12,
  duration_ms: 60_000 + ((back * 131) % 400) * 1000,
});
