import { rename } from "node:fs/promises";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { never, startEngine, untilInterrupted } from "./engine.fixture.ts";
import { someProcess } from "./sweep.fixture.ts";

test("after a stop a job whose agent had not started waits again, and the next start runs it as attempt 2", async () => {
  const engine = await startEngine({ execute: untilInterrupted });
  const { id } = await engine.submit();
  engine.work();
  await until(async () => (await engine.jobs.get(id)).status === "running");
  engine.queue.stop();
  await engine.worker.stop();
  await engine.store.close();
  const again = await startEngine({ directory: engine.directory });
  expect((await again.jobs.get(id)).status).toBe("queued");
  again.work();
  await again.recover();
  expect(await again.jobs.untilFinal(id, never)).toMatchObject({ status: "succeeded", attempt: 2 });
});

/** The state a kill -9 leaves: a running record of a process that is gone. */
const crashed = async (patch: object) => {
  const engine = await startEngine();
  const { id } = await engine.submit({ repo_url: "https://git.example/acme/app" });
  await engine.store.update(
    id,
    { status: ["queued"] },
    { status: "running", attempt: 1, unsettled: true, ...patch },
  );
  await engine.store.close();
  return { id, directory: engine.directory };
};

test.each([
  { what: "whose agent had not been started is queued again", requeue: true, patch: {}, ends: "succeeded" },
  { what: "whose agent was at work fails as instance_lost", requeue: false, patch: {}, ends: "failed" },
  {
    what: "that was lost too often fails as instance_lost",
    requeue: true,
    patch: { attempt: 5 },
    ends: "failed",
  },
  {
    what: "that had been cancelled stays cancelled",
    requeue: false,
    patch: { status: "cancelled", ended_at: new Date().toISOString() },
    ends: "cancelled",
  },
])("after a crash a job $what", async ({ requeue, patch, ends }) => {
  const { id, directory } = await crashed(patch);
  const engine = await startEngine({
    directory,
    settleLost: async () => ({ requeue, patch: { salvage_ref: "refs/service/salvage/x" } }),
  });
  engine.work();
  await engine.recover();
  const job = await engine.jobs.untilFinal(id, never);
  expect(job).toMatchObject({ status: ends, unsettled: false, salvage_ref: "refs/service/salvage/x" });
  expect(job.failure_reason).toBe(ends === "failed" ? "instance_lost" : null);
});

test("a job that may not be run again does not say that its agent was never started when it was", async () => {
  const { id, directory } = await crashed({
    attempt: 5,
    pod_name: "pod",
    retry_lost: true,
    process: someProcess,
  });
  const engine = await startEngine({
    directory,
    settleLost: async () => ({ requeue: true, patch: { salvage_ref: "refs/service/salvage/x" } }),
  });
  await engine.recover();
  const { error, salvage_ref } = await engine.jobs.get(id);
  expect(error).toBe(
    `The instance pod ended or was cut off while the agent was at work; its work is saved as ${salvage_ref}.\nWhat to do: svc continue ${id.slice(0, 8)}.`,
  );
});

const pushed = { stage: "pushed", at: new Date().toISOString(), attempt: 1 };

test.each([
  ["succeeds, with a word of the pull request that nobody knows of", null, [expect.stringContaining("b-1")]],
  ["succeeds", "https://git.example/pull/1", []],
])("after a crash a job whose branch was pushed %s", async (_, pr_url, warnings) => {
  const patch = {
    process: someProcess,
    retry_lost: true,
    branch: "b-1",
    pr_url,
  };
  const { id, directory } = await crashed({ ...patch, stages: [pushed] });
  const engine = await startEngine({ directory, settleLost: async () => ({ requeue: true, patch: {} }) });
  await engine.recover();
  expect(await engine.jobs.get(id)).toMatchObject({ status: "succeeded", attempt: 1, error: null, warnings });
});

test("cleaning up after an earlier run leaves alone the attempt that another instance has made in the meantime", async () => {
  const { id, directory } = await crashed({ instance_epoch: "earlier", process: someProcess });
  const other = { attempt: 2, instance_epoch: "other", unsettled: true, ended_at: new Date().toISOString() };
  const engine = await startEngine({
    directory,
    settleLost: async () => {
      await engine.store.update(id, { status: ["running", "failed"] }, { status: "cancelled", ...other });
      return { requeue: false, patch: { salvage_ref: "refs/service/salvage/x" } };
    },
  });
  await engine.recover();
  expect(await engine.jobs.get(id)).toMatchObject({ ...other, salvage_ref: null });
});

test("a stop does not wait for a store that is unreachable: the next start settles the job whose outcome was not written", async () => {
  const engine = await startEngine({ execute: untilInterrupted });
  const { id } = await engine.submit();
  engine.work();
  await until(async () => (await engine.jobs.get(id)).status === "running");
  await rename(engine.directory, `${engine.directory}-away`);
  engine.queue.stop();
  await engine.worker.stop();
  await rename(`${engine.directory}-away`, engine.directory);
  const again = await startEngine({ directory: engine.directory });
  await again.recover();
  expect(await again.jobs.untilFinal(id, never)).toMatchObject({
    status: "failed",
    failure_reason: "instance_lost",
  });
});
