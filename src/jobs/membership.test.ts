import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import { createRedisInstances } from "../store/instances.ts";
import { createMembership, createPresence } from "./membership.ts";

const log = createLog("silent", (text) => text);

test("another instance is lost while this one renews its own lease: not while that is refused, and counted anew from when it is taken again", async () => {
  const redis = await startRedis();
  const kv = await openKv(redis.url);
  const leaseSeconds = 1;
  const epoch = randomUUID();
  const instances = createRedisInstances({ kv, name: "here", self: null, leaseSeconds, log });
  const settings = { podName: "here", instanceLease: leaseSeconds };
  const presence = createPresence({ instances, settings, backSince: () => 0 });
  const facts = () => ({
    name: "here",
    epoch,
    version: "1",
    started_at: new Date().toISOString(),
    running: 0,
    max_parallel_jobs: 1,
    turns: 0,
    draining: false,
    address: null,
    agent_mode: false,
  });
  const membership = createMembership({
    instances,
    presence,
    settings,
    ownership: { checkAll: async () => true },
    queue: { pause: () => undefined, resume: () => undefined },
    onSuperseded: () => expect.fail("nobody else has the name"),
    log,
  });
  await presence.join(facts());
  membership.start(facts);
  afterFile(membership.stop);
  presence.noteMissing(["other"]);
  await until(() => presence.isLost("other"), { what: "the other to be lost" });
  await kv.client.config("SET", "min-replicas-to-write", "1");
  await until(() => presence.missingFor("other") === 0, { what: "a renewal to fail" });
  await kv.client.config("SET", "min-replicas-to-write", "0");
  const again = await until(() => presence.missingFor("other") || null, { what: "renewals to succeed" });
  // It counts from then.
  expect(again).toBeLessThan(leaseSeconds * 500);
});
