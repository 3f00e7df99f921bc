import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { someProcess, startSweep } from "./sweep.fixture.ts";

let redis: TestRedis;

beforeAll(async () => {
  redis = await startRedis();
});

test.concurrent("a run of this start that this instance knows nothing of is settled, unless it is being claimed, worked on or settled", async () => {
  const world = await startSweep(redis);
  const run = (patch = {}, epoch: string = world.epoch) => world.running("here", epoch, patch);
  const known = await run();
  world.own.add(known);
  const earlier = await run({}, randomUUID());
  const cancelled = await run({ status: "cancelled", ended_at: new Date().toISOString() });
  const begun = await run({ process: someProcess, pid: 1 });
  const unbegun = await run();
  const queued = await world.sweepUntil(unbegun, ({ status }) => status === "queued", "to be queued");
  expect(queued).toMatchObject({ unsettled: false, instance_epoch: null });
  expect(world.added).toContainEqual({ id: unbegun, boundTo: null });
  const failed = await world.sweepUntil(begun, ({ status }) => status === "failed", "to fail");
  expect(failed).toMatchObject({ failure_reason: "instance_lost", unsettled: false });
  const settled = await world.sweepUntil(cancelled, ({ unsettled }) => !unsettled, "to be settled");
  expect(settled.status).toBe("cancelled");
  for (const id of [known, earlier]) expect(await world.get(id)).toMatchObject({ status: "running" });
});

test.concurrent("a run of a lost instance whose branch was pushed has succeeded, whatever its profile says", async () => {
  const world = await startSweep(redis);
  const stages = [{ stage: "pushed" as const, at: new Date().toISOString(), attempt: 1 }];
  const patch = { process: someProcess, retry_lost: true, branch: "b-1", stages };
  const id = await world.running("gone", randomUUID(), patch);
  expect(await world.sweepUntil(id, ({ status }) => status !== "running", "to end")).toMatchObject({
    status: "succeeded",
    unsettled: true,
    warnings: [expect.stringContaining("b-1")],
  });
});

test.concurrent("a run that is ending with the service is left to the next start", async () => {
  const world = await startSweep(redis, { isEnding: true });
  const own = await world.running("here", world.epoch);
  const begun = performance.now();
  await world.sweepUntil(own, () => performance.now() - begun > 2000, "to have been looked at for long");
  expect(await world.get(own)).toMatchObject({ status: "running" });
});

test.concurrent("what cannot be read keeps nobody from seeing that an instance is lost, and is reported once", async () => {
  const world = await startSweep(redis);
  const [bad, worse] = [randomUUID(), randomUUID()];
  const { kv } = world;
  await kv.ask(async (client) => {
    await client.zadd(kv.jobKey("unsettled"), 0, `0000000000001_${randomUUID()} garbage`);
    await client.zadd(kv.jobKey("unsettled"), 0, `0000000000001_${bad} ["gone","e"]`);
    await client.set(kv.jobKey("job", bad), "x");
    await client.set(kv.jobKey("job", worse), "x");
    await client.zadd(kv.jobKey("st:queued"), "0", `0000000000001_${worse}`);
  });
  const id = await world.running("gone", randomUUID(), { process: someProcess, pid: 1 });
  const waiting = await world.make({ bound_to: "gone" });
  await world.sweepUntil(id, ({ status }) => status === "failed", "of the lost instance to fail");
  await world.sweepUntil(waiting, ({ status }) => status === "failed", "that waits for it to be given up");
  for (const name of [bad, worse])
    expect(world.warnings.filter((said) => said.includes(name))).toHaveLength(1);
});

test.concurrent("a job whose instance never comes back is settled when its time is over, so that it can be removed, and not before", async () => {
  const world = await startSweep(redis);
  const ended = { status: "failed" as const, failure_reason: "instance_lost" as const };
  const ago = (seconds: number): string => new Date(Date.now() - seconds * 1000).toISOString();
  const over = await world.running("gone", "e", { ...ended, ended_at: ago(3700) });
  const fresh = await world.running("gone", "e", { ...ended, ended_at: ago(10) });
  await world.sweepUntil(over, ({ unsettled }) => !unsettled, "to be settled");
  expect(await world.get(fresh)).toMatchObject({ unsettled: true });
  expect(await world.store.due("removable", Date.now())).toEqual([over]);
});

test.concurrent("a run of a lost instance is not read again, once its job has ended, before its time is over", async () => {
  const reads: string[] = [];
  const world = await startSweep(redis, {
    store: (real) => ({
      get: async (id) => {
        reads.push(id);
        return await real.get(id);
      },
    }),
  });
  const [first, second] = await Promise.all(
    [1, 2].map(() => world.running("gone", "e", { process: someProcess })),
  );
  await world.sweepUntil(first ?? "", ({ status }) => status === "failed", "to fail");
  await world.sweepUntil(second ?? "", ({ status }) => status === "failed", "to fail");
  await world.sweep.round();
  reads.length = 0;
  for (let round = 0; round < 5; round += 1) await world.sweep.round();
  expect(reads).toEqual([]);
});

test.concurrent("others do not count as missing while this instance cannot renew its own lease", async () => {
  let since: number | null = null;
  const world = await startSweep(redis, { backSince: () => since ?? performance.now() });
  const id = await world.running("gone", "e", { process: someProcess });
  const own = await world.running("here", world.epoch);
  await world.sweepUntil(own, ({ status }) => status === "queued", "of its own to be queued");
  expect(await world.get(id)).toMatchObject({ status: "running" });
  since = performance.now();
  await world.sweepUntil(id, ({ status }) => status === "failed", "to fail");
});

test.concurrent("an instance that was seen lives until it has been missing for half a lease, and one that never was does not", async () => {
  let since = Number.POSITIVE_INFINITY;
  const world = await startSweep(redis, { backSince: () => Math.min(since, performance.now()) });
  const other = world.instanceOf("other");
  await other.join(world.facts("other"));
  await world.presence.refresh();
  expect(world.presence.isLiving("other")).toBe(true);
  await other.leave();
  await world.presence.refresh();
  expect(world.presence.isLiving("other")).toBe(true);
  expect(world.presence.isLiving("never seen")).toBe(false);
  since = 0;
  await until(() => !world.presence.isLiving("other"), { what: "it to be missing for long enough" });
});

describe("jobs that wait", () => {
  test.concurrent.each(["gone", "busy"])(
    "those that wait for another instance (%s) do not keep the others from being checked",
    async (name) => {
      const world = await startSweep(redis, { lostInstanceGrace: 600 });
      const [busy, facts] = [world.instanceOf("busy"), world.facts("busy")];
      await busy.join(facts);
      const old = new Date(Date.now() - 120_000).toISOString();
      await Promise.all(Array.from({ length: 230 }, () => world.make({ bound_to: name, created_at: old })));
      const id = await world.make({});
      const isAdded = async (): Promise<boolean> => {
        await busy.renew(facts);
        await world.sweep.round();
        return world.added.some((entry) => entry.id === id);
      };
      await until(isAdded, { what: "the job to get its place in the queue again" });
    },
  );

  test.concurrent("one that waits for an instance that does not answer says so once, and what happens then", async () => {
    const world = await startSweep(redis, { lostInstanceGrace: 600 });
    const [plain, resumed] = [
      await world.make({ bound_to: "gone" }),
      await world.make({
        bound_to: "gone",
        session_id: randomUUID(),
        request: { ...(await world.get(await world.make({}))).request, session_id: randomUUID() },
      }),
    ];
    const told = await world.sweepUntil(plain, ({ warnings }) => warnings.length > 0, "to say so");
    expect(told.warnings).toEqual([
      "It waits for the instance gone, on whose disk its worktree is and which does not answer; it fails when gone has been unreachable for 600 s",
    ]);
    const other = await world.sweepUntil(resumed, ({ warnings }) => warnings.length > 0, "to say so");
    expect(other.warnings).toEqual([
      "It waits for the instance gone, on whose disk its worktree is and which does not answer; it continues on another instance when gone has been unreachable for 600 s",
    ]);
    const marker = await world.running("here", world.epoch);
    await world.sweepUntil(marker, ({ status }) => status === "queued", "to be queued");
    expect((await world.get(plain)).warnings).toHaveLength(1);
  });

  test.concurrent("an error of the store that is not a loss of contact does not begin the grace of a lost instance again", async () => {
    let rounds = 0;
    const refuse = async (): Promise<never> => {
      rounds += 1;
      const cause = Object.assign(new Error("OOM command not allowed"), { name: "ReplyError" });
      throw new ServiceError("store_unavailable", "refused", { cause });
    };
    let refused = true;
    const world = await startSweep(redis, {
      store: (real) => ({ ids: (...args) => (refused ? refuse() : real.ids(...args)) }),
    });
    const id = await world.running("gone", "e", { process: someProcess });
    await world.sweepUntil(id, ({ status }) => status === "failed", "to fail though each round is refused");
    refused = false;
    expect(rounds).toBeGreaterThan(0);
  });
});

test.concurrent("a count that cannot be kept keeps no job from its place in the queue, nor its end from being announced", async () => {
  const world = await startSweep(redis, {
    store: () => ({ count: () => Promise.reject(new Error("refused")) }),
  });
  const again = await world.running("gone", "e");
  const lost = await world.running("gone", "e", { process: someProcess });
  await world.sweepUntil(again, ({ status }) => status === "queued", "to be queued");
  expect(world.added).toContainEqual({ id: again, boundTo: null });
  await world.sweepUntil(lost, ({ status }) => status === "failed", "to fail");
});

describe("a job that is held for a usage limit", () => {
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
  const heldFor = (credential: string, until = inAnHour) => ({
    held: { reason: "limit" as const, until },
    limit: { credential, waits: 0, since: new Date().toISOString() },
  });

  test.concurrent("rests until its time, but where another credential is used it is begun there", async () => {
    const world = await startSweep(redis);
    await world.make(heldFor("own"));
    const due = await world.make(heldFor("own", new Date().toISOString()));
    const other = await world.make(heldFor("other"));
    await world.make({ ...heldFor("other"), bound_to: "there" });
    await world.sweep.round();
    expect(world.added).toHaveLength(2);
    expect(world.added).toEqual(
      expect.arrayContaining([
        { id: due, boundTo: null },
        { id: other, boundTo: "here" },
      ]),
    );
  });

  test.concurrent("rests as well where the limit of the other credential is reached, too", async () => {
    const world = await startSweep(redis);
    const waiting = { kind: "limit" as const, id: "limit_1", questions: [], plan: null, asked_at: inAnHour };
    await world.make({ ...heldFor("other") });
    const { limit } = heldFor("own");
    await world.make({ status: "running", waiting: { ...waiting, until: inAnHour }, limit });
    await world.sweep.round();
    expect(world.added).toEqual([]);
  });
});
