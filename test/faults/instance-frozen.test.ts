import { join } from "node:path";
import { mkdir } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { asks } from "../asks.ts";
import { startSvc } from "../cli/run-svc.ts";
import { isRunning } from "../processes.ts";
import { until } from "../until.ts";
import { freeze, startPair, thaw } from "./instance-pair.ts";

/** Seconds within which what is to happen at once happens on a busy machine. */
const soon = 5;

/** What a late settler may add to a job that others have called lost. */
const lasting = ({ salvage_ref: _ref, branch: _branch, warnings: _warnings, error: _error, ...job }: Job) =>
  job;

describe.each([
  { what: "it was frozen alone", withAgent: false },
  { what: "it was frozen with its agent", withAgent: true },
])("an instance that was frozen for longer than its lease, when $what", ({ withAgent }) => {
  test("ends its agent once it is thawed, leaves what others wrote of the job, adds the saved work and continues working", async () => {
    const pair = await startPair();
    const { id } = await pair.begin();
    const two = await pair.startTwo();
    const frozen = [pair.one.pid, ...(withAgent ? pair.agents(id) : [])];
    freeze(...frozen);
    const lost = await asks(two).ended(id);
    expect(lost).toMatchObject({ status: "failed", failure_reason: "instance_lost", salvage_ref: null });
    expect(pair.agents(id)).not.toEqual([]);

    thaw(...frozen);
    await until(() => pair.agents(id).length === 0, { seconds: soon, what: "the agent to be gone" });
    await until(async () => (await pair.world.record(id))?.unsettled === false, {
      what: "the work to be saved",
    });
    const after = await asks(two).get(id);
    expect(lasting(after)).toEqual(lasting(lost));
    expect(after.error).toContain(`its work is saved as ${after.salvage_ref}`);
    expect(await pair.saved(after)).toContain(`${id.slice(0, 8)}-1-step-1.txt`);
    expect(await pair.works(pair.one)).toMatchObject({ status: "succeeded", pod_name: "one" });
  });

  test("ends its agent of a job that is another's by now, and not the agent of that one", async () => {
    const pair = await startPair();
    const { id } = await pair.begin("stubborn");
    const two = await pair.startTwo();
    const frozen = [pair.one.pid, ...(withAgent ? pair.agents(id) : [])];
    freeze(...frozen);
    await asks(two).when(id, ({ attempt, pid }) => attempt === 2 && pid !== null, "to run again");
    expect(pair.agents(id)).not.toEqual([]);
    const second = await until(() => pair.agents(id, 2)[0], { what: "the second agent" });

    thaw(...frozen);
    await until(() => pair.agents(id).length === 0, { seconds: soon, what: "the first agent to be gone" });
    // With this job it has looked at all that it had.
    expect(await pair.works(pair.one)).toMatchObject({ status: "succeeded", pod_name: "one" });
    expect(pair.agents(id, 2)).toContain(second);
    await pair.finish();
    expect(await asks(two).ended(id)).toMatchObject({ status: "succeeded", attempt: 2, pod_name: "two" });
    const begun = (await pair.world.notes()).filter((note) => note.job === id && note.pid !== undefined);
    expect(begun.map(({ attempt }) => attempt)).toEqual([1, 2]);
  });
});

test("an instance whose name another start has taken in the meantime ends itself and its agents, and says why", async () => {
  const pair = await startPair();
  const { id } = await pair.begin();
  freeze(pair.one.pid);
  await until(
    async () => (await pair.world.kv.ask((client) => client.exists(pair.world.kv.key("pod", "one")))) === 0,
    {
      what: "its lease to lapse",
    },
  );
  const home = join(pair.world.directory, "another-one");
  await mkdir(home);
  const successor = await pair.world.cluster.start("one", { home });

  thaw(pair.one.pid);
  await until(() => !isRunning(pair.one.pid), { what: "the instance to end" });
  expect(await pair.one.stop()).toBe(1);
  expect(pair.one.output.stderr).toContain(
    "svc: another instance has started as one; give each instance a SERVICE_POD_NAME of its own",
  );
  expect(pair.agents(id)).toEqual([]);
  expect(await pair.works(successor)).toMatchObject({ status: "succeeded", pod_name: "one" });
});

test("a second start under the name of a living instance is refused, and the living one continues", async () => {
  const pair = await startPair();
  const home = join(pair.world.directory, "another-one");
  await mkdir(home);
  const { code, stderr } = await startSvc(["serve"], { env: { ...pair.one.env, HOME: home }, cwd: home })
    .ended;
  expect(code).toBe(1);
  expect(stderr).toContain(
    "Another instance that is running has the name one; give each instance a SERVICE_POD_NAME of its own",
  );
  expect(await pair.works(pair.one)).toMatchObject({ status: "succeeded", pod_name: "one" });
});
