import { expect, test } from "vitest";
import { runFake, type FakeRun } from "../../../test/fake-agent/run.ts";
import { peakOf } from "../../../test/peak-memory.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";

const warnings = (run: FakeRun): string[] =>
  run.events.flatMap((event) => (event.type === "warning" ? [event.message] : []));

test("200 MB of output are read in a small memory and end well", async () => {
  const directory = await temporaryDirectory();
  const { value: run, grown } = await peakOf(
    runFake('scenario: flood {"megabytes": 200, "shape": "garbage"}', { directory }),
  );
  expect(run.outcome).toMatchObject({ ok: true, text: "The flood is over." });
  expect(run.left).toEqual([]);
  expect(grown).toBeLessThan(150);
});

test("a line beyond the limit is left out and reported; the run continues", async () => {
  const run = await runFake('scenario: huge-line {"megabytes": 20}', {
    directory: await temporaryDirectory(),
  });
  expect(run.outcome).toMatchObject({ ok: true, text: "That was a long line." });
  expect(warnings(run)).toEqual([expect.stringMatching(/a line of 209\d{5} bytes/)]);
});

test("megabytes on standard error leave their tail in the error, within its limit", async () => {
  const directory = await temporaryDirectory();
  const [good, bad] = await Promise.all([
    runFake("scenario: stderr-flood", { directory }),
    runFake('scenario: stderr-flood {"code": 7}', { directory }),
  ]);
  expect(good.outcome).toMatchObject({ ok: true, error: null });
  expect(bad.outcome).toMatchObject({ reason: "agent_exit", exitCode: 7 });
  const error = bad.outcome.error ?? "";
  expect(Buffer.byteLength(error)).toBeLessThanOrEqual(10_240);
  expect(Buffer.byteLength(error)).toBeGreaterThan(10_000);
  expect(error).toMatch(/^The agent exited with code 7.*\n\nstderr of the agent:\n\[… cut …\]\n/s);
  expect(error).not.toContain("\ufffd");
});
