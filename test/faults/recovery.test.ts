import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { openKv } from "../kv.ts";
import { startRedis } from "../redis.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { createStoreWorld, nth } from "./store-world.ts";

const startWorld = async (prefix: string) => {
  const redis = await startRedis();
  const world = await createStoreWorld({
    kvUrl: redis.url,
    directory: await temporaryDirectory(),
    names: ["a"],
    env: { SERVICE_INSTANCE_LEASE: "2", KV_KEY_PREFIX: prefix },
  });
  const kv = await openKv(redis.url, prefix);
  const a = nth(world.services, 0);
  const { id } = await asks(a).submit({ task: "scenario: sleep" });
  await asks(a).speaking(id);
  await a.kill();
  // What an instance asks at its start to find what an earlier one has left.
  await kv.client.acl("SETUSER", "default", "-hgetall");
  const again = await world.cluster.start("a");
  const tried = (): Promise<unknown> =>
    until(() => again.output.stderr.includes("cannot all be taken up yet"), { what: "a try that fails" });
  return { again, id, tried, allow: () => kv.client.acl("SETUSER", "default", "+hgetall") };
};

test("what an earlier start has left is taken up when the store that failed just after the start works again, and then new jobs are", async () => {
  const { again, id, tried, allow } = await startWorld("takes-up");
  const fresh = await asks(again).submit({ task: "scenario: noop" });
  await tried();
  expect(await asks(again).get(fresh.id)).toMatchObject({ status: "queued" });
  await allow();
  expect(await asks(again).ended(id)).toMatchObject({ status: "failed", failure_reason: "instance_lost" });
  expect(await asks(again).ended(fresh.id)).toMatchObject({ status: "succeeded", pod_name: "a" });
}, 60_000);

test("an instance that cannot take up yet what an earlier start has left stops when it is told to", async () => {
  const { again, tried } = await startWorld("stops");
  await tried();
  expect(await again.stop()).toBe(0);
}, 60_000);
