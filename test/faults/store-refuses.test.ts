import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { openKv } from "../kv.ts";
import { startRedis } from "../redis.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { createStoreWorld, nth } from "./store-world.ts";

test("jobs continue when the store refused all writes for longer than a lease while it could be read", async () => {
  const redis = await startRedis();
  const world = await createStoreWorld({
    kvUrl: redis.url,
    directory: await temporaryDirectory(),
    names: ["a"],
    env: { SERVICE_INSTANCE_LEASE: "3", KV_KEY_PREFIX: "refuses" },
  });
  const kv = await openKv(redis.url, "refuses");
  const a = asks(nth(world.services, 0));
  const { id } = await a.submit({ task: "scenario: sleep" });
  await a.speaking(id);
  const b = await world.cluster.start("b");
  const living = async (): Promise<number> => (await b.client.list_instances({})).instances.length;
  const alive = async (): Promise<number> =>
    await kv.ask((client) => client.exists(...["a", "b"].map((name) => kv.key("pod", name))));
  await until(async () => (await living()) === 2, { what: "all to be known" });

  for (const _round of [1, 2]) {
    await kv.client.config("SET", "min-replicas-to-write", "1");
    await until(async () => (await alive()) === 0, { what: "all leases to lapse" });
    // So long that each has seen the other without a lease for more than half of one.
    const seen = performance.now();
    await until(() => performance.now() - seen > 2000, { what: "everybody to have been missing" });
    await kv.client.config("SET", "min-replicas-to-write", "0");
    await until(async () => (await alive()) === 2, { what: "all leases to be back" });
    const other = asks(b);
    expect(await other.run({ task: "scenario: noop" })).toMatchObject({ status: "succeeded" });
    expect(await other.get(id)).toMatchObject({ status: "running", attempt: 1, pod_name: "a" });
  }
});
