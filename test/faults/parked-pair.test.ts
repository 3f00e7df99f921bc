import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { until } from "../until.ts";
import { startPair } from "./instance-pair.ts";

test("a question outlives its instance: another one takes the answer, and the job goes on when its own is back", async () => {
  const pair = await startPair({ slots: "2" });
  const { job } = await pair.one.client.run_task({
    task: "scenario: ask {}",
    repo_url: pair.world.remote.path,
  });
  const two = await pair.startTwo();
  const waiting = await until(async () => (await asks(two).get(job.id)).waiting, { what: "the question" });
  await pair.one.kill();
  // The other one has settled the lost run.
  await until(async () => (await pair.world.record(job.id))?.unsettled === false, {
    what: "the job to be parked",
  });
  expect(await asks(two).get(job.id)).toMatchObject({ status: "running", pid: null, waiting });
  await two.client.answer_job({ job_id: job.id, id: waiting.id, text: "SQLite" });
  const warned = await until(async () => (await asks(two).get(job.id)).warnings.join() || null);
  expect(warned).toContain("It waits for the instance one, on whose disk its worktree is");
  await pair.world.cluster.start("one");
  expect(await asks(two).ended(job.id)).toMatchObject({
    status: "succeeded",
    outcome: "changed",
    attempt: 1,
    pod_name: "one",
  });
  const { diff } = await two.client.get_diff({ job_id: job.id });
  expect(diff).toContain("SQLite");
});
