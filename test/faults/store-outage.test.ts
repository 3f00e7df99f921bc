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
  process.stdout.write(`store away: ${JSON.stringify(tally)}\n`);
  expect(tally.faults).toEqual([]);
  expect(tally).toMatchObject({ jobs: 8, succeeded: 8, lost: 0, pushed: 2 });
  expect(tally).toMatchObject({ endedMeanwhile: 4, endedAfter: 2, waited: 2 });
}, 120_000);

test("an outcome that could not be written before the service was killed is written by its next start: the job is not lost", async () => {
  const redis = await startPromptRedis();
  const directory = await temporaryDirectory();
  const world = await createStoreWorld({ kvUrl: redis.url, directory, names: ["i1"] });
  const { journal, remote, cluster, services } = world;
  const first = nth(services, 0);
  const submit = async (task: string) =>
    (await first.client.run_task({ task, repo_url: remote.path })).job.id;
  const good = await submit('scenario: work {"ms": 1500}');
  const bad = await submit('scenario: exit-without-result {"ms": 1500, "code": 3}');
  await until(async () => (await runsIn(journal)).size === 2, { what: "the agents to be at work" });

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
  expect((await remote.branches()).length).toBe(2);
  expect(await runsIn(journal)).toEqual(new Map([good, bad].map((id) => [id, 1])));
  await until(async () => (await spooled()).length === 0, { what: "the spool to be empty" });
}, 60_000);

test("a job that may be run twice and ends while the store is unreachable for less than a lease ends well, once", async () => {
  const redis = await startPromptRedis();
  const directory = await temporaryDirectory();
  // What must not happen must not be due to the lease.
  const env = { SERVICE_INSTANCE_LEASE: "20" };
  const world = await createStoreWorld({ kvUrl: redis.url, directory, names: ["i1"], env });
  const { journal, remote, services } = world;
  const service = nth(services, 0);
  const submission = { repo_url: remote.path, profile: stubborn };
  const { job } = await service.client.run_task({ task: 'scenario: work {"ms": 800}', ...submission });
  await until(async () => (await runsIn(journal)).size === 1, { what: "the agent to be at work" });
  await redis.kill();
  await until(() => processesMarked(job.id).length === 0, { what: "the agent to have ended" });
  await redis.restart();
  expect(await asks(service).ended(job.id)).toMatchObject({ status: "succeeded", attempt: 1 });
  expect(await runsIn(journal)).toEqual(new Map([[job.id, 1]]));
}, 60_000);
