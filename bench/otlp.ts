import { randomUUID } from "node:crypto";
import { join } from "node:path";
import autocannon from "autocannon";
import { encodeLogs } from "../src/telemetry/otlp.fixture.ts";
import { batchOf } from "../src/telemetry/otlp.ts";
import { createSqlSink } from "../src/telemetry/sql-sink.ts";
import { openSqlite } from "../src/telemetry/sqlite.ts";
import { median, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const rounds = 5;
const seconds = 3;
/** Records that an exporter sends at once. */
const batchSize = 512;
const key = "key-of-the-bench";

/** Log records like those of the agent, received over HTTP and stored, against decoding and storing the same bytes in a loop. */
export const otlp = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withService(directory, { SERVICE_OTEL_ENABLED: "true", SERVICE_API_KEYS: key }, async ({ url }) => {
      const body = encodeLogs(Array(batchSize).fill({ attributes }));
      const ours: number[] = [];
      const base: number[] = [];
      for (let round = 0; round < rounds; round += 1) {
        base.push(await storedPerSecond(directory, body));
        ours.push(await receivedPerSecond(url, body));
      }
      const value = median(ours) / median(base);
      return [
        {
          what: "log records received over OTLP/JSON and stored",
          ours: `${median(ours).toFixed(0)}/s`,
          baseline: `${median(base).toFixed(0)}/s (decoding and storing alone)`,
          value,
          unit: "x",
          target: "≥ 0.5 ×",
          met: value >= 0.5,
        },
      ];
    }),
  );

/** As the agent reports a call of a tool. */
const attributes = {
  "user.id": "d132820b23f1600c08dbad4cb80f5c0708c3b95c5ca7a4318670eeb66acf503b",
  "session.id": "fdee84e4-3f86-4604-abef-b9a50f42de5a",
  "event.name": "tool_result",
  "event.timestamp": "2026-03-02T08:00:00.324Z",
  "event.sequence": 3,
  "prompt.id": "8cfaeb84-41a9-4eb1-a6f7-00973d6ad790",
  tool_name: "Bash",
  tool_use_id: "toolu_723fdb343fa4c94b645aed59",
  success: "true",
  duration_ms: "125",
  tool_parameters: JSON.stringify({ bash_command: "echo", full_command: "echo something".repeat(10) }),
  tool_input_size_bytes: "58",
  tool_result_size_bytes: "9",
};

const storedPerSecond = async (directory: string, body: Uint8Array): Promise<number> => {
  const sink = createSqlSink({
    open: () => openSqlite(join(directory, "baseline.db")),
    now: () => new Date(),
  });
  const started = performance.now();
  let batches = 0;
  while (performance.now() - started < seconds * 1000) {
    const message: unknown = JSON.parse(Buffer.from(body).toString());
    await sink.append(batchOf("logs", message, new Date()), randomUUID());
    batches += 1;
  }
  const perSecond = (1000 * batches * batchSize) / (performance.now() - started);
  await sink.close();
  return perSecond;
};

const receivedPerSecond = async (url: string, body: Uint8Array): Promise<number> => {
  const result = await autocannon({
    url: `${url}/otlp/v1/logs`,
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": key },
    body: Buffer.from(body),
    connections: 4,
    duration: seconds,
  });
  if (result.non2xx + result.errors > 0)
    throw new Error(`${result.non2xx} refusals, ${result.errors} errors`);
  return (result["2xx"] / result.duration) * batchSize;
};
