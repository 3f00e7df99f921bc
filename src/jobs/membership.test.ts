import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import { createRedisInstances } from "../store/instances.ts";
import { createInstanceLease, createMembership } from "./membership.ts";

const log = createLog("silent", (text) => text);

test("an instance knows since when its own renewals have succeeded: not while they are refused, and again from when they are taken again", async () => {
  const redis = await startRedis();
  const kv = await openKv(redis.url);
  const leaseSeconds = 1;
  const epoch = randomUUID();
  const instances = createRedisInstances({ kv, name: "here", self: null, leaseSeconds, log });
  const lease = createInstanceLease(instances, leaseSeconds);
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
    lease,
    ownership: { checkAll: async () => true },
    queue: { pause: () => undefined, resume: () => undefined },
    onSuperseded: () => expect.fail("nobody else has the name"),
    log,
  });
  await lease.join(facts());
  membership.start(facts);
  afterFile(membership.stop);
  const first = lease.renewingSince();
  expect(lease.renewingSince()).toBe(first);

  await kv.client.config("SET", "min-replicas-to-write", "1");
  const failing = await until(
    () => {
      const [one, other] = [lease.renewingSince(), lease.renewingSince()];
      return other > one ? one : null;
    },
    { what: "a renewal to fail" },
  );
  expect(failing).toBeGreaterThan(first);
  await kv.client.config("SET", "min-replicas-to-write", "0");
  const again = await until(
    () => {
      const one = lease.renewingSince();
      return performance.now() > one + 100 && lease.renewingSince() === one ? one : null;
    },
    { what: "renewals to succeed" },
  );
  expect(again).toBeGreaterThan(failing);
});
