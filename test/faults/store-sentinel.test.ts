import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { startRedisSentinel } from "../redis-sentinel.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runsIn } from "./store-journal.ts";
import { submitOnce } from "./store-submit.ts";
import { createStoreWorld, nth } from "./store-world.ts";

test("when Sentinel makes the replica the master, acknowledged jobs are found, runs end well and work continues, also when the old master is back", async () => {
  const store = await startRedisSentinel();
  const world = await createStoreWorld({
    kvUrl: store.url,
    directory: await temporaryDirectory(),
    names: ["i1", "i2"],
    env: { SERVICE_MAX_PARALLEL_JOBS: "2" },
  });
  const { services, journal } = world;
  const [first, second] = [nth(services, 0), nth(services, 1)];
  const submit = async (task: string) => (await first.client.run_task({ task })).job.id;
  const long = await Promise.all([1, 2].map(() => submit('scenario: paced {"steps": 8, "ms": 1000}')));
  await until(async () => (await runsIn(journal)).size === 2, { what: "the agents to be at work" });
  const short = await Promise.all([1, 2, 3, 4, 5, 6].map(() => submit('scenario: noop {"ms": 800}')));

  const killed = await store.killMaster();
  const began = performance.now();
  const after = await until(async () => (await submitOnce(second.url, { task: "scenario: noop" })).id, {
    seconds: 40,
    what: "a submission to be taken",
  });
  const resumed = Math.round(performance.now() - began);
  await killed.restart();
  const all = [...long, ...short, after];
  const jobs = await Promise.all(all.map((id) => asks(second).ended(id)));
  expect(jobs.filter(({ status, attempt }) => status !== "succeeded" || attempt !== 1)).toEqual([]);
  expect(await runsIn(journal)).toEqual(new Map(all.map((id) => [id, 1])));
  expect(await asks(first).run({ task: "scenario: noop" })).toMatchObject({ status: "succeeded" });
  process.stdout.write(`fail-over: ${jobs.length} jobs, a submission was taken ${resumed} ms after it\n`);
}, 120_000);
