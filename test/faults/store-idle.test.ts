import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { createLog } from "../../src/lib/log.ts";
import { completionKind, createCompletionStore } from "../../src/store/completion-store.ts";
import { openRedisRecords } from "../../src/store/redis-records.ts";
import { openKv } from "../kv.ts";
import { sampleCompletion } from "../ports/completion-store-suite.ts";
import { startRedis } from "../redis.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";

const seconds = 10;

test("an idle instance with 700 finished completions sends at most 10 commands a second", async () => {
  const { url } = await startRedis();
  const kv = await openKv(url, "service");
  const log = createLog("silent", String);
  const store = createCompletionStore(openRedisRecords(completionKind(86_400), { kv, now: kv.now, log }));
  await startService({ env: { KV_URL: url, KV_KEY_PREFIX: "service", AGENT_MODE: "true" } });
  const at = kv.now().toISOString();
  const ended = { status: "completed", created_at: at, started_at: at, ended_at: at } as const;
  await Promise.all(
    Array.from({ length: 700 }, (_, n) => store.create(sampleCompletion({ ...ended, uuid: `c${n}` }))),
  );
  /** By the store's own counter, which counts what scripts do, too. */
  const total = async (): Promise<number> =>
    Number(/^total_commands_processed:(\d+)/m.exec(await kv.client.info("stats"))?.[1]);
  /** Commands a second, by the time that has passed: a busy machine waits longer than it was asked to. */
  const rateOver = async (ms: number): Promise<number> => {
    const [before, begin] = [await total(), performance.now()];
    await delay(ms);
    return ((await total()) - before) / ((performance.now() - begin) / 1000);
  };
  await until(async () => (await rateOver(1000)) <= 10, { what: "the last of what a start does" });
  expect(await rateOver(seconds * 1000)).toBeLessThanOrEqual(10);
});
