import { expect, test } from "vitest";
import { runFake, type FakeRun } from "../../../test/fake-agent/run.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { until } from "../../../test/until.ts";
import type { AgentEvent } from "../../contract/event.ts";
import { isAlive, type ProcessIdentity } from "../../lib/process/identity.ts";

const warnings = (run: FakeRun): string[] =>
  run.events.flatMap((event) => (event.type === "warning" ? [event.message] : []));

/** A reader that takes no event before the agent is gone. */
const asleepUntilTheEnd = async (_: AgentEvent, agent: ProcessIdentity | null): Promise<void> => {
  await until(async () => agent === null || !(await isAlive(agent)));
};

/** Growth of this thread's memory at its peak, MiB; other threads run other tests. */
const peakOf = async <Value>(work: Promise<Value>): Promise<{ value: Value; grown: number }> => {
  const held = (): number => {
    const { heapUsed, external } = process.memoryUsage();
    return (heapUsed + external) / 2 ** 20;
  };
  const before = held();
  let peak = before;
  const sampler = setInterval(() => (peak = Math.max(peak, held())), 10);
  const value = await work.finally(() => clearInterval(sampler));
  return { value, grown: peak - before };
};

test("500 MB of output are read in a small memory and end well", async () => {
  const directory = await temporaryDirectory();
  const { value: run, grown } = await peakOf(
    runFake('scenario: flood {"megabytes": 500, "shape": "garbage"}', { directory }),
  );
  expect(run.outcome).toMatchObject({ ok: true, output: "The flood is over." });
  expect(run.left).toEqual([]);
  expect(grown).toBeLessThan(150);
});

test("a reader that is too slow costs pieces of text, told once, but no tool call, result or time of the agent", async () => {
  const directory = await temporaryDirectory();
  const { value: run, grown } = await peakOf(
    runFake('scenario: flood {"megabytes": 100}', {
      directory,
      onEvent: asleepUntilTheEnd,
    }),
  );
  expect(run.outcome.ok).toBe(true);
  expect(warnings(run)).toEqual([expect.stringContaining("read too slowly")]);
  expect(run.events.filter((event) => event.type === "text").length).toBeLessThan(1000);
  expect(run.events.slice(-2).map((event) => event.type)).toEqual(["result", "exited"]);
  expect(grown).toBeLessThan(200);
});

test("tool calls and results keep their place in line when the reader is too slow", async () => {
  const directory = await temporaryDirectory();
  const run = await runFake('scenario: flood {"megabytes": 100, "shape": "tool"}', {
    directory,
    onEvent: asleepUntilTheEnd,
  });
  expect(run.events.filter((event) => event.type === "tool_use")).toHaveLength(3200);
  const results = run.events.flatMap((event) => (event.type === "tool_result" ? [event.content] : []));
  expect(results).toHaveLength(3200);
  expect(results.join("").length).toBeLessThan(70 * 2 ** 20);
  expect(results.at(-1)).toContain("left out");
  expect(warnings(run)).toEqual([expect.stringContaining("read too slowly")]);
});

test("a long result is cut at the front, within the limit of the output", async () => {
  const run = await runFake('scenario: noop {"kilobytes": 200}', { directory: await temporaryDirectory() });
  const output = run.outcome.output ?? "";
  expect(Buffer.byteLength(output)).toBeLessThanOrEqual(51_200);
  expect(Buffer.byteLength(output)).toBeGreaterThan(51_190);
  expect(output).toMatch(/^\[… cut …\]\nä+ the end$/);
});

test("a line beyond the limit is left out and told; the run goes on", async () => {
  const run = await runFake('scenario: huge-line {"megabytes": 20}', {
    directory: await temporaryDirectory(),
  });
  expect(run.outcome).toMatchObject({ ok: true, output: "That was a long line." });
  expect(warnings(run)).toEqual([expect.stringMatching(/a line of 209\d{5} bytes/)]);
});

test("megabytes on standard error leave their tail in the error, within its limit", async () => {
  const directory = await temporaryDirectory();
  const [good, bad] = await Promise.all([
    runFake("scenario: stderr-flood", { directory }),
    runFake('scenario: stderr-flood {"code": 7}', { directory }),
  ]);
  expect(good.outcome).toMatchObject({ ok: true, error: null });
  expect(bad.outcome).toMatchObject({ reason: "agent_exit", exit_code: 7 });
  const error = bad.outcome.error ?? "";
  expect(Buffer.byteLength(error)).toBeLessThanOrEqual(10_240);
  expect(Buffer.byteLength(error)).toBeGreaterThan(10_000);
  expect(error).toMatch(/^The agent exited with code 7.*\n\nstderr of the agent:\n\[… cut …\]\n/s);
  expect(error).not.toContain("\ufffd");
});
