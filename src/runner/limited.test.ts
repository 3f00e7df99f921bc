import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { claimJob } from "./runner.fixture.ts";

test("an overload is retried in the same session without the prompt; warnings name it, the cost of all counts", async () => {
  const log = join(await temporaryDirectory(), "log");
  const job = await claimJob(
    `scenario: api-error ${JSON.stringify({ status: 529, times: 2, log })}`,
    { repo_url: "" },
    { overloadRetries: 2 },
  );
  const { kind, patch } = await job.execute();
  expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
  expect(patch).toMatchObject({ output: "Done after all.", num_turns: 1, cost_usd: 3 * 0.0123 });
  expect((await readFile(log, "utf8")).trim().split("\n")).toHaveLength(1);
  const { warnings, stages } = await job.stored();
  expect(warnings).toEqual(
    expect.arrayContaining([
      "The model answered 529; the agent went on after 0 s, try 1 of 2",
      "The model answered 529; the agent went on after 0 s, try 2 of 2",
    ]),
  );
  const names = stages.map(({ stage }) => stage);
  expect(names.filter((stage) => stage === "agent_started")).toHaveLength(1);
  expect(names.filter((stage) => stage === "result")).toHaveLength(1);
});

test("an overload that lasts fails the job; what it cost in all its processes is told", async () => {
  const job = await claimJob('scenario: api-error {"status": 529}', { repo_url: "" }, { overloadRetries: 1 });
  expect(await job.execute()).toMatchObject({
    kind: "failed",
    patch: { failure_reason: "api_error", retryable: true, cost_usd: 2 * 0.0123 },
  });
  expect((await job.stored()).stages.filter(({ stage }) => stage === "result")).toHaveLength(1);
});

test("a job that is stopped in the pause is not told its task again", async () => {
  const slow = { overloadRetries: 1, overloadPauses: [60] };
  const job = await claimJob('scenario: api-error {"status": null}', { repo_url: "" }, slow);
  const outcome = job.execute();
  await until(async () => (await job.stored()).waiting?.kind === "model");
  job.interrupt("shutdown");
  expect(await outcome).toMatchObject({ kind: "failed", patch: { failure_reason: "instance_lost" } });
});

test("a job waits for a model that is away, and says what it answered and when it is asked again", async () => {
  const pauses = { overloadRetries: 3, overloadPauses: [0.5] };
  const job = await claimJob('scenario: api-error {"status": 529, "times": 3}', { repo_url: "" }, pauses);
  const outcome = job.execute();
  await until(async () => (await job.stored()).waiting !== null);
  expect(await job.stored()).toMatchObject({ status: "running", waiting: { kind: "model", id: "model_1" } });
  expect(await outcome).toMatchObject({ kind: "succeeded" });
  expect((await job.stored()).waiting).toBeNull();
  const retries = (await job.published()).filter((event) => event.type === "retry");
  const told = { status: 529, delay_ms: 500, max_retries: 3, by: "service" };
  expect(retries).toEqual([1, 2, 3].map((retry) => expect.objectContaining({ ...told, retry }) as object));
  expect(retries[0]).toMatchObject({ error: expect.stringContaining("529") as string });
});

test("a job that is cancelled in the pause ends at once; one without time for the pause ends before it", async () => {
  const slow = { overloadRetries: 1, overloadPauses: [600] };
  const [job, hasty] = await Promise.all([
    claimJob("scenario: api-error", { repo_url: "" }, slow),
    claimJob("scenario: api-error", { repo_url: "" }, slow),
  ]);
  const outcome = job.execute();
  await until(async () => (await job.stored()).waiting !== null);
  job.interrupt("cancel");
  await outcome;
  const options = { ...hasty.record.options, timeout_seconds: 300 };
  expect(await hasty.execute({}, { ...hasty.record, options })).toMatchObject({
    kind: "failed",
    patch: { failure_reason: "api_error", retryable: true },
  });
});

test("a usage limit parks the job until its reset", async () => {
  const job = await claimJob('scenario: rate-limit {"resetsIn": 300}', { repo_url: "" });
  const begun = Date.now();
  const { kind, patch } = await job.execute();
  expect({ kind, ...patch }).toMatchObject({
    kind: "parked",
    output: null,
    session_id: expect.any(String) as string,
    waiting: { kind: "limit" },
    limit: { credential: "one", waits: 1 },
  });
  const wait = Date.parse(patch.waiting?.until ?? "") - begun;
  expect(wait).toBeGreaterThan(299_000);
  expect(wait).toBeLessThan(302_500);
});
