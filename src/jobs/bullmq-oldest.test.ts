import { Queue as OldestQueue } from "bullmq-oldest";
import { expect, test, vi } from "vitest";
import packageFile from "../../package.json" with { type: "json" };
import { openKv } from "../../test/kv.ts";
import { queueSuite } from "../../test/ports/queue-suite.ts";
import { startRedis } from "../../test/redis.ts";
import type { createBullQueue as Create } from "./bullmq-queue.ts";
import { openOn } from "./bullmq-queue.fixture.ts";

/** The adapter on the oldest BullMQ that package.json allows; the installed one is what the other tests run on. */
const withOldest = async () => {
  vi.doMock("bullmq", () => import("bullmq-oldest"));
  // A module of its own, beside the one that other files share.
  const module = "./bullmq-queue.ts?oldest";
  try {
    const { createBullQueue } = (await import(module)) as { createBullQueue: typeof Create };
    return createBullQueue;
  } finally {
    vi.doUnmock("bullmq");
  }
};

const create = await withOldest();
const redis = startRedis();

queueSuite("the oldest BullMQ", {
  open: async ({ concurrency }) => openOn({ kv: await openKv((await redis).url), concurrency }, create),
});

test("it is the oldest that package.json allows", async () => {
  const { bullmq, "bullmq-oldest": oldest } = packageFile.devDependencies;
  expect(oldest).toBe(`npm:bullmq@${bullmq.replace("^", "")}`);
  const kv = await openKv((await redis).url);
  openOn({ kv }, create);
  const queue = new OldestQueue("jobs", {
    connection: kv.client,
    prefix: `{${kv.prefix}:q}`,
    skipMetasUpdate: true,
  });
  const version = await vi.waitUntil(() => queue.getVersion());
  await queue.close();
  expect(version).toBe(`bullmq:${oldest.split("@")[1] ?? ""}`);
});
