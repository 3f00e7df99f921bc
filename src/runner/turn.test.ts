import { expect, test } from "vitest";
import { processesMarked } from "../../test/processes.ts";
import { claimJob } from "./runner.fixture.ts";

test("an event that cannot be passed on ends the agent before it ends the job", async () => {
  const job = await claimJob("scenario: sleep");
  const outcome = await job.execute({
    event: (event) => {
      if (event.type === "text") throw new RangeError("too deep");
    },
  });
  expect(processesMarked(job.record.id)).toEqual([]);
  expect(outcome).toMatchObject({ kind: "failed", patch: { failure_reason: "internal", error: "too deep" } });
});

test("the input of a tool call is cut where it is nested too deeply", async () => {
  const deep = `${'{"in":'.repeat(3000)}1${"}".repeat(3000)}`;
  const steps = `[{"tool": {"name": "Bash", "input": {"near": [1], "deep": ${deep}}}}, {"text": "Done."}]`;
  const job = await claimJob(`scenario: chat {"steps": ${steps}}`);
  expect(await job.execute()).toMatchObject({ kind: "succeeded", patch: { output: "Done." } });
  const call = (await job.told()).find(({ type }) => type === "tool_use");
  expect(call).toMatchObject({ input: { near: [1] } });
  expect(JSON.stringify(call)).toContain('{"in":"[… cut: nested more than 100 levels deep …]"}');
});

test.each([
  ["noop", "success"],
  ['auth-error {"status": 401}', "error"],
  ["work-after-result", "error"],
])("the run of the scenario %s passes the stage `result` once, with %s", async (scenario, detail) => {
  const job = await claimJob(`scenario: ${scenario}`);
  await job.execute();
  const stages = (await job.told()).filter(({ type }) => type === "stage");
  expect(stages.filter((event) => "stage" in event && event.stage === "result")).toEqual([
    expect.objectContaining({ detail }),
  ]);
});
