import { expect, test } from "vitest";
import { costOf, unreported, type EarlierRuns, type SpentRun } from "./cost.ts";

const usage = (input: number, output = 0, written = 0, read = 0) => ({
  input_tokens: input,
  output_tokens: output,
  cache_creation_input_tokens: written,
  cache_read_input_tokens: read,
});
const run = { costUsd: null, usage: usage(1_000_000), model: "claude-sonnet-5", maxBudgetUsd: 2.5 };
const earlier: EarlierRuns = { costUsd: 8, usage: usage(1_000_000, 600_000) };

test.each<[string, Partial<SpentRun>, EarlierRuns | null, number | null, boolean]>([
  ["reported it", { costUsd: 0.5 }, earlier, 0.5, false],
  ["reported no tokens", { usage: null }, earlier, null, false],
  ["reported that it used and cost nothing", { costUsd: 0, usage: usage(0) }, earlier, 0, false],
  ["said 0 in spite of its tokens", { costUsd: 0 }, earlier, 2, true],
  ["gave no result, and there are earlier runs of its model", {}, earlier, 2, true],
  ["gave no result, and its model is in the table", {}, null, 3, true],
  ["gave no result, and earlier runs have no tokens", {}, { costUsd: 8, usage: usage(0) }, 3, true],
  ["gave no result, and its model has no price", { model: "other" }, null, 2.5, true],
  ["gave no result, price or limit", { model: null, maxBudgetUsd: null }, null, null, false],
])("a run whose agent %s", (_, changes, before, costUsd, costEstimated) => {
  expect(costOf({ ...run, ...changes }, before)).toEqual({ costUsd, costEstimated });
});

test.each([
  ["claude-opus-4-1-20250805", 15],
  ["claude-opus-4-20250514", 15],
  ["claude-opus-4-8", 5],
  ["us.anthropic.claude-haiku-4-5-20251001-v1:0", 1],
  ["claude-3-5-haiku-20241022", 0.8],
  ["sonnet", 3],
])(
  "a million input tokens of %s cost %d USD by the table; output, cache writes and reads follow",
  (model, usd) => {
    const costUsd = (tokens: ReturnType<typeof usage>) =>
      costOf({ ...run, model, usage: tokens }, null).costUsd;
    expect(costUsd(usage(1_000_000))).toBeCloseTo(usd, 9);
    expect(costUsd(usage(0, 1_000_000))).toBeCloseTo(5 * usd, 9);
    expect(costUsd(usage(0, 0, 1_000_000, 1_000_000))).toBeCloseTo(1.35 * usd, 9);
  },
);

const big = () => usage(1000, 200, 0, 5000);

test.each([
  ["what is reported", { a: big() }, { a: big() }, {}],
  ["more that is reported than was seen", { a: usage(1000) }, { a: big() }, {}],
  ["less than 1 % more", { a: usage(10_099) }, { a: usage(10_000) }, {}],
  ["more than 1 % more", { a: usage(10_101) }, { a: usage(10_000) }, { a: usage(101) }],
  // A token of output is worth five of input: few of them are not hidden by many cached ones.
  ["a few answers", { a: usage(0, 100, 0, 100_000) }, { a: usage(0, 50, 0, 100_000) }, { a: usage(0, 50) }],
  ["nothing reported", { a: big() }, {}, { a: big() }],
  ["another model", { a: big(), b: big() }, { a: big() }, { a: usage(0), b: big() }],
  ["an alias of the model", { "a-2026": big() }, { a: big() }, {}],
  ["a model with a larger window", { a: big() }, { "a[1m]": big() }, {}],
  // What one model is reported too much of must not pay for another.
  [
    "another model behind false figures",
    { a: big(), b: big() },
    { a: usage(9000, 900, 0, 90_000) },
    { a: usage(0), b: big() },
  ],
])("of %s the unreported is the rest", (_, seen, reported, expected) => {
  expect(unreported(seen, reported)).toEqual(expected);
});
