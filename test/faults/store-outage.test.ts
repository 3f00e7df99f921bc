import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { lease } from "../cluster.ts";
import { processesMarked } from "../processes.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runsIn } from "./store-journal.ts";
import { storeOutage } from "./store-outage.ts";
import { createStoreWorld, nth, startPromptRedis, stubborn } from "./store-world.ts";

test("jobs that end while the store is unreachable for two leases, or continue beyond it, or wait for it, end well, and none counts as lost", async () => {
  const tally = await storeOutage({ directory: await temporaryDirectory(), seconds: 2 * lease + 1 });
  expect(tally.faults).toEqual([]);
  expect(tally).toMatchObject({ jobs: 8, succeeded: 8, lost: 0, pushed: 2 });
  expect(tally).toMatchObject({ endedMeanwhile: 4, endedAfter: 2, waited: 2 });
});

test("what ends while the store is away for less than a lease ends well, once, also when it may be run twice, or when the service is killed before its outcome is written", async () => {
  const redis = await startPromptRedis();
  const directory = await temporaryDirectory();
  // What must not happen must not be due to the lease.
  const env = { SERVICE_INSTANCE_LEASE: "20" };
  const world = await createStoreWorld({ kvUrl: redis.url, directory, names: ["i1"], env });
  const { journal, remote, cluster, services } = world;
  const first = nth(services, 0);
  const submit = async (task: string, profile = "code") =>
    (await first.client.run_task({ task, profile, repo_url: remote.path })).job.id;
  const atWork = (count: number) =>
    until(async () => (await runsIn(journal)).size === count, { what: "the agents to be at work" });

  const twice = await submit('scenario: work {"ms": 800}', stubborn);
  await atWork(1);
  await redis.kill();
  await until(() => processesMarked(twice).length === 0, { what: "the agent to have ended" });
  await redis.restart();
  expect(await asks(first).ended(twice)).toMatchObject({ status: "succeeded", attempt: 1 });

  const good = await submit('scenario: work {"ms": 1500}');
  const bad = await submit('scenario: exit-without-result {"ms": 1500, "code": 3}');
  await atWork(3);
  await redis.kill();
  const spool = join(first.home, ".service", "jobs", "instances", "i1", "spool");
  const spooled = async () => (await readdir(spool)).filter((name) => name.endsWith(".json"));
  await until(async () => (await spooled()).length === 2, { what: "the outcomes to be on the disk" });
  await first.kill();
  await redis.restart();
  const again = asks(await cluster.start("i1"));

  expect(await again.ended(good)).toMatchObject({
    status: "succeeded",
    attempt: 1,
    output: expect.stringContaining("Done") as string,
  });
  expect(await again.ended(bad)).toMatchObject({
    status: "failed",
    failure_reason: "agent_exit",
    exit_code: 3,
  });
  expect((await remote.branches()).length).toBe(3);
  expect(await runsIn(journal)).toEqual(new Map([twice, good, bad].map((id) => [id, 1])));
  await until(async () => (await spooled()).length === 0, { what: "the spool to be empty" });
});
