import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { startRedisSentinel } from "../redis-sentinel.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runsIn } from "./store-journal.ts";
import { submitOnce } from "./store-submit.ts";
import { createStoreWorld, nth } from "./store-world.ts";

test("when Sentinel makes the replica the master, acknowledged jobs are found, runs end well and work continues, also when the old master is back, and takes over in a second fail-over", async () => {
  const store = await startRedisSentinel();
  const directory = await temporaryDirectory();
  const world = await createStoreWorld({
    kvUrl: store.url,
    directory,
    names: ["i1", "i2"],
    env: { SERVICE_MAX_PARALLEL_JOBS: "2" },
  });
  const { services, journal } = world;
  const [first, second] = [nth(services, 0), nth(services, 1)];
  const submit = async (task: string) => (await first.client.run_task({ task })).job.id;
  const over = join(world.controls, "over");
  const goingOn = `scenario: paced ${JSON.stringify({ until: over, ms: 300 })}`;
  const long = await Promise.all([1, 2].map(() => submit(goingOn)));
  await until(async () => (await runsIn(journal)).size === 2, { what: "the agents to be at work" });
  const short = await Promise.all([1, 2, 3, 4].map(() => submit('scenario: noop {"ms": 800}')));

  const killed = await store.killMaster();
  const submitted = () =>
    until(async () => (await submitOnce(second.url, { task: "scenario: noop" })).id, {
      what: "a submission to be taken",
    });
  const after = await submitted();
  await writeFile(over, "");
  await killed.restart();
  const all = [...long, ...short, after];
  const jobs = await Promise.all(all.map((id) => asks(second).ended(id)));
  expect(jobs.filter(({ status, attempt }) => status !== "succeeded" || attempt !== 1)).toEqual([]);
  expect(await runsIn(journal)).toEqual(new Map(all.map((id) => [id, 1])));
  expect(await asks(first).run({ task: "scenario: noop" })).toMatchObject({ status: "succeeded" });

  // The old master takes over again.
  await until(() => store.hasReplica(), { what: "the old master to follow" });
  await store.killMaster();
  const again = await submitted();
  expect(await asks(second).ended(again)).toMatchObject({ status: "succeeded", attempt: 1 });
  for (const id of all) expect(await asks(first).get(id)).toMatchObject({ status: "succeeded" });
});
