import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { startRedis } from "../redis.ts";
import { startRedisSentinel } from "../redis-sentinel.ts";
import type { Service } from "../service-process.ts";
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
  // One that is claimed as the master goes may have to be claimed again; its agent runs once.
  expect(jobs.filter(({ status }) => status !== "succeeded")).toEqual([]);
  expect(await runsIn(journal)).toEqual(new Map(all.map((id) => [id, 1])));
  expect(await asks(first).run({ task: "scenario: noop" })).toMatchObject({ status: "succeeded" });

  // The old master takes over again.
  await until(() => store.hasReplica(), { what: "the old master to follow" });
  await store.killMaster();
  const again = await submitted();
  expect(await asks(second).ended(again)).toMatchObject({ status: "succeeded", attempt: 1 });
  for (const id of all) expect(await asks(first).get(id)).toMatchObject({ status: "succeeded" });
});

/** Notes what callers are told of a job, by both instances, from now on. */
const watch = (services: readonly Service[], id: string) => {
  const stopping = new AbortController();
  const seen = new Set<string>();
  const look = async (service: Service): Promise<void> => {
    while (!stopping.signal.aborted) {
      const job = await asks(service)
        .get(id)
        .catch((error: { status?: number }) => (error.status === 404 ? { status: "unknown" } : null));
      if (job !== null) seen.add(job.status);
      await delay(20);
    }
  };
  const looking = Promise.all(services.map(look));
  return async (): Promise<string[]> => {
    stopping.abort();
    await looking;
    return [...seen];
  };
};

test("a fail-over whose replica is behind loses nothing that callers were told: ended jobs stay ended, none is run again, accepted and cancelled ones are so still", async () => {
  const store = await startRedisSentinel();
  const directory = await temporaryDirectory();
  const env = { SERVICE_MAX_PARALLEL_JOBS: "1" };
  const world = await createStoreWorld({ kvUrl: store.url, directory, names: ["i1", "i2"], env });
  const { services, journal, controls } = world;
  const [first, second] = [asks(nth(services, 0)), asks(nth(services, 1))];
  const paced = (name: string) =>
    `scenario: paced ${JSON.stringify({ until: join(controls, name), ms: 100 })}`;
  const submit = async (task: string) => (await first.submit({ task })).id;
  const [ending, long] = [await submit(paced("first")), await submit(paced("over"))];
  await Promise.all([first.speaking(ending), first.speaking(long)]);
  const unwanted = await submit("scenario: noop");

  await store.holdBack();
  await nth(services, 1).client.cancel_job({ job_id: unwanted });
  const whole = await submit("scenario: noop");
  const begun = await submit(paced("over"));
  const accepted = await submit("scenario: noop");
  await writeFile(join(controls, "first"), "");
  for (const id of [ending, whole]) expect(await second.ended(id)).toMatchObject({ status: "succeeded" });
  await second.speaking(begun);
  const told = new Map([ending, whole, unwanted, begun, accepted].map((id) => [id, watch(services, id)]));
  // A sentinel hears of a new master up to two seconds later than another one, and so does an instance.
  const { pod_name } = await second.get(begun);
  const { pid } = nth(services, pod_name === "i1" ? 0 : 1);
  process.kill(pid, "SIGSTOP");
  await store.killMaster();
  await delay(2000);
  process.kill(pid, "SIGCONT");
  // Work goes on.
  await writeFile(join(controls, "over"), "");
  for (const id of [long, begun, accepted])
    expect(await first.ended(id)).toMatchObject({ status: "succeeded", attempt: 1 });
  // So long that whoever does not know an ended job's run would have called it lost.
  await first.run({ task: 'scenario: noop {"ms": 4000}' });
  expect(await told.get(ending)?.()).toEqual(["succeeded"]);
  expect(await told.get(whole)?.()).toEqual(["succeeded"]);
  expect(await told.get(unwanted)?.()).toEqual(["cancelled"]);
  expect(await told.get(begun)?.()).toEqual(["running", "succeeded"]);
  expect(await told.get(accepted)?.()).not.toContain("unknown");
  expect([...(await runsIn(journal))].filter(([, count]) => count !== 1)).toEqual([]);
  const runs = await runsIn(journal);
  expect(runs.has(unwanted)).toBe(false);
  const events = await fetch(`${nth(services, 1).url}/jobs/${whole}/events`);
  expect(await events.text()).toContain('"ended"');
});

test("an instance that is killed and started again across such a fail-over knows how its jobs ended", async () => {
  const store = await startRedisSentinel();
  const directory = await temporaryDirectory();
  const world = await createStoreWorld({ kvUrl: store.url, directory, names: ["i1"] });
  const service = nth(world.services, 0);
  const end = join(world.controls, "end");
  const { id } = await asks(service).submit({
    task: `scenario: paced ${JSON.stringify({ until: end, ms: 100 })}`,
  });
  await asks(service).speaking(id);
  await store.holdBack();
  await writeFile(end, "");
  const ended = await asks(service).ended(id);
  // Who waits is told what the instance has on its disk as well; who asks again and again may be told a moment before.
  const { job: later } = await service.client.run_task({ task: "scenario: noop", wait: true });
  await service.kill();
  await store.killMaster();
  const again = asks(await world.cluster.start("i1"));
  for (const { status, ended_at, cost_usd, ...job } of [ended, later])
    expect(await again.get(job.id)).toMatchObject({ status, ended_at, cost_usd });
  expect(await again.run({ task: "scenario: noop" })).toMatchObject({ status: "succeeded" });
  expect([...(await runsIn(world.journal)).values()]).toEqual([1, 1, 1]);
});

test("a store that comes back empty at the same address gets its last jobs again: they end well, and only once", async () => {
  const redis = await startRedis({ args: ["--appendonly", "no"] });
  const directory = await temporaryDirectory();
  const world = await createStoreWorld({ kvUrl: redis.url, directory, names: ["i1"] });
  const service = asks(nth(world.services, 0));
  const over = join(world.controls, "over");
  const done = await service.run({ task: "scenario: noop" });
  const { id } = await service.submit({
    task: `scenario: paced ${JSON.stringify({ until: over, ms: 100 })}`,
  });
  await service.speaking(id);
  await redis.kill();
  await redis.restart();
  await writeFile(over, "");
  const job = await until(() => service.ended(id).catch(() => null), { what: "the job to end" });
  expect(job).toMatchObject({ status: "succeeded", attempt: 1 });
  expect(await service.get(done.id)).toMatchObject({ status: "succeeded", ended_at: done.ended_at });
  expect([...(await runsIn(world.journal)).values()]).toEqual([1, 1]);
});
