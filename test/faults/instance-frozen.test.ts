import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { asks } from "../asks.ts";
import { startSvc } from "../cli/run-svc.ts";
import { isRunning } from "../processes.ts";
import { until } from "../until.ts";
import { freeze, startPair, thaw } from "./instance-pair.ts";

/** Seconds within which what is to happen at once happens on a busy machine. */
const soon = 8;

let pair: Awaited<ReturnType<typeof startPair>>;
beforeAll(async () => void (pair = await startPair({ slots: "4" })));

/** What a late settler may add to a job that others have called lost. */
const lasting = ({ salvage_ref: _ref, branch: _branch, warnings: _warnings, error: _error, ...job }: Job) =>
  job;

/** A home for another start of the name `one`. */
const anotherHome = async (name: string): Promise<string> => {
  const home = join(pair.world.directory, name);
  await mkdir(home);
  return home;
};

test("a second start under the name of a living instance is refused, and the living one continues", async () => {
  const home = await anotherHome("refused");
  const { code, stderr } = await startSvc(["serve"], { env: { ...pair.one.env, HOME: home }, cwd: home })
    .ended;
  expect(code).toBe(1);
  expect(stderr).toContain(
    "Another instance that is running has the name one; give each instance a SERVICE_POD_NAME of its own",
  );
  expect(await pair.works(pair.one)).toMatchObject({ status: "succeeded", pod_name: "one" });
});

test("an instance that was frozen for longer than its lease, with some of its agents, ends them once it is thawed, leaves what others wrote, adds saved work, ends no agent of another's, and works on", async () => {
  const { one, world } = pair;
  const begun = await Promise.all(["code", "code", "stubborn", "stubborn"].map((name) => pair.begin(name)));
  const ids = begun.map(({ id }) => id);
  const [lost, again] = [ids.slice(0, 2), ids.slice(2)];
  const two = await pair.startTwo();
  // One job of each kind is frozen with its agent.
  const frozen = [one.pid, ...ids.filter((_, at) => at % 2 === 1).flatMap((id) => pair.agents(id))];
  freeze(...frozen);
  const before = await Promise.all(lost.map((id) => asks(two).ended(id)));
  const gone = { status: "failed", failure_reason: "instance_lost", salvage_ref: null };
  expect(before).toMatchObject([gone, gone]);
  const isAgain = ({ attempt, pid }: Job): boolean => attempt === 2 && pid !== null;
  for (const id of again) await asks(two).when(id, isAgain, "to run again");
  const theirs = await Promise.all(
    again.map((id) => until(() => pair.agents(id, 2)[0], { what: "the second agent" })),
  );
  for (const id of ids) expect(pair.agents(id)).not.toEqual([]);

  thaw(...frozen);
  const left = (): number[] => ids.flatMap((id) => pair.agents(id));
  await until(() => left().length === 0, { seconds: soon, what: "the first agents to be gone" });
  for (const [at, id] of lost.entries()) {
    await until(async () => (await world.record(id))?.unsettled === false, { what: "the work to be saved" });
    const after = await asks(two).get(id);
    expect(lasting(after)).toEqual(lasting(before[at] as Job));
    expect(after.error).toContain(`its work is saved as ${after.salvage_ref}`);
    expect(await pair.saved(after)).toContain(`${id.slice(0, 8)}-1-step-1.txt`);
  }
  // With this job it has looked at all that it had.
  expect(await pair.works(one)).toMatchObject({ status: "succeeded", pod_name: "one" });
  expect(again.flatMap((id) => pair.agents(id, 2))).toEqual(expect.arrayContaining(theirs));
  await pair.finish();
  const notes = await world.notes();
  for (const id of again) {
    expect(await asks(two).ended(id)).toMatchObject({ status: "succeeded", attempt: 2, pod_name: "two" });
    const given = notes.filter(({ job, pid }) => job === id && pid !== undefined);
    expect(given.map(({ attempt }) => attempt)).toEqual([1, 2]);
  }
  await two.stop();
});

test("an instance whose name another start has taken in the meantime ends itself and its agents, and says why", async () => {
  const { one, world } = pair;
  const { id } = await pair.begin();
  freeze(one.pid);
  const lapsed = async () =>
    (await world.kv.ask((client) => client.exists(world.kv.key("pod", "one")))) === 0;
  await until(lapsed, { what: "its lease to lapse" });
  const successor = await world.cluster.start("one", { home: await anotherHome("successor") });

  thaw(one.pid);
  await until(() => !isRunning(one.pid), { what: "the instance to end" });
  expect(await one.stop()).toBe(1);
  expect(one.output.stderr).toContain(
    "svc: another instance has started as one; give each instance a SERVICE_POD_NAME of its own",
  );
  expect(pair.agents(id)).toEqual([]);
  expect(await pair.works(successor)).toMatchObject({ status: "succeeded", pod_name: "one" });
});
