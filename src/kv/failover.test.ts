import { expect, test } from "vitest";
import { openKv } from "../../test/kv.ts";
import { startRedisSentinel } from "../../test/redis-sentinel.ts";
import { until } from "../../test/until.ts";

test("after each of two fail-overs the new master is used", async () => {
  const sentinel = await startRedisSentinel();
  const kv = await openKv(sentinel.url);
  const add = () => kv.ask((client) => client.incr(kv.key("n")));
  expect(await add()).toBe(1);
  for (const round of [1, 2]) {
    const before = await kv.ask((client) => client.get(kv.key("n")));
    const killed = await sentinel.killMaster();
    const after = await until(add, {
      seconds: 60,
      what: `the new master of round ${round} to be written to`,
    });
    expect(after).toBeGreaterThan(Number(before));
    if (round === 2) break;
    await killed.restart();
    await until(() => sentinel.hasReplica(), { seconds: 60, what: "the old master to follow" });
  }
});
