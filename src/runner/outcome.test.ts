import { describe, expect, test } from "vitest";
import type { Report } from "../contract/job.ts";
import type { Outcome } from "../contract/job.ts";
import { claimJob } from "./runner.fixture.ts";
import { judge } from "./outcome.ts";

const report = (outcome: Outcome, question = ""): Report => ({
  outcome,
  summary: "Looked around.",
  question,
});

describe("what came of an agent that ended well", () => {
  test.each<[string, Partial<Parameters<typeof judge>[0]>, ReturnType<typeof judge>]>([
    ["new commits", { changed: true, report: report("no_change") }, { outcome: "changed", question: null }],
    [
      "new commits, and a question",
      { changed: true, text: "A or B?" },
      { outcome: "changed", question: "A or B?" },
    ],
    [
      "new commits, and checks that are red as before",
      { changed: true, checks: [{ status: "passed" }, { status: "failed_before" }] },
      { outcome: "changed", question: null },
    ],
    [
      "new commits, and checks that are red",
      { changed: true, checks: [{ status: "failed_before" }, { status: "timed_out" }] },
      { outcome: "checks_failed", question: null },
    ],
    ["may only read", { readOnly: true, text: "Is that all?" }, { outcome: "answered", question: null }],
    [
      "may only read, says it asks",
      { readOnly: true, report: report("question", "A?") },
      { outcome: "answered", question: null },
    ],
    [
      "may only read, says nothing is there",
      { readOnly: true, report: report("no_change") },
      { outcome: "no_change", question: null },
    ],
    ["says it asks", { report: report("question", "A or B?") }, { outcome: "question", question: "A or B?" }],
    [
      "says it has answered, with a question mark",
      { report: report("answered"), text: "Anything else?" },
      { outcome: "answered", question: null },
    ],
    [
      "says it has changed something, which is not so",
      { report: report("changed") },
      { outcome: "no_change", question: null },
    ],
    [
      "no report, and a question as last word",
      { text: "I looked.\n\nA or B?" },
      { outcome: "question", question: "A or B?" },
    ],
    [
      "no report, and a question in bold",
      { text: "**A or B?**\n" },
      { outcome: "question", question: "**A or B?**" },
    ],
    [
      "no report, and a question before the last sentence",
      { text: "A or B? I took A." },
      { outcome: "no_change", question: null },
    ],
    ["no report, and no words", {}, { outcome: "no_change", question: null }],
  ])("%s", (_what, facts, judged) => {
    expect(judge({ changed: false, checks: [], readOnly: false, report: null, text: "", ...facts })).toEqual(
      judged,
    );
  });
});

const asks = { steps: [{ text: "I looked around.\n\nPostgres or SQLite?" }] };

test("a job whose agent ends with a question and changes nothing needs input; session and worktree stay", async () => {
  const job = await claimJob(`scenario: chat ${JSON.stringify(asks)}`);
  const { kind, patch } = await job.execute();
  expect(kind).toBe("failed");
  expect(patch).toMatchObject({
    failure_reason: "needs_input",
    outcome: "question",
    retryable: true,
    summary: expect.stringContaining("I looked around.") as string,
    error: `The agent ended with a question: Postgres or SQLite?\nWhat to do: svc continue ${job.record.id.slice(0, 8)} "your answer".`,
  });
  expect((await job.stored()).worktree_path).toContain(job.record.id);
});

test("a question beside a change is a warning of a job that has succeeded; the summary is what the agent reports", async () => {
  const said = report("question", "Shall I add a test?");
  const job = await claimJob(`scenario: work ${JSON.stringify({ report: said })}`);
  expect(await job.execute()).toMatchObject({
    kind: "succeeded",
    patch: { outcome: "changed", summary: "Looked around." },
  });
  expect((await job.stored()).warnings).toContain("The agent asks: Shall I add a test?");
});

test("the output of an agent that reports is its last words, not the report", async () => {
  const options = { ...asks, report: report("answered") };
  const job = await claimJob(`scenario: chat ${JSON.stringify(options)}`);
  expect(await job.execute()).toMatchObject({
    kind: "succeeded",
    patch: { outcome: "answered", output: asks.steps[0]?.text, summary: "Looked around." },
  });
});
