import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { createLog } from "../../src/lib/log.ts";
import { completionKind, createCompletionStore } from "../../src/store/completion-store.ts";
import { openRedisRecords } from "../../src/store/redis-records.ts";
import { openKv } from "../kv.ts";
import { sampleCompletion } from "../ports/completion-store-suite.ts";
import { startRedis } from "../redis.ts";
import { startService } from "../service.ts";

const seconds = 10;

test.each([0, 700])(
  "an idle instance with %i finished completions sends at most 10 commands a second",
  async (count) => {
    const { url } = await startRedis();
    const kv = await openKv(url, "service");
    await startService({ env: { KV_URL: url, KV_KEY_PREFIX: "service", AGENT_MODE: "true" } });
    const log = createLog("silent", String);
    const store = createCompletionStore(openRedisRecords(completionKind(86_400), { kv, now: kv.now, log }));
    const at = kv.now().toISOString();
    const ended = { status: "completed", created_at: at, started_at: at, ended_at: at } as const;
    for (let n = 0; n < count; n += 1) await store.create(sampleCompletion({ ...ended, uuid: `c${n}` }));
    /** By the store's own counter, which counts what scripts do, too. */
    const total = async (): Promise<number> =>
      Number(/^total_commands_processed:(\d+)/m.exec(await kv.client.info("stats"))?.[1]);
    // The last of what a start does.
    await delay(5000);
    const before = await total();
    await delay(seconds * 1000);
    expect((await total()) - before).toBeLessThanOrEqual(10 * seconds);
  },
);
