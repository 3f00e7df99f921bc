import { expect, test } from "vitest";
import { sampleJob } from "../../test/cli/sample-job.ts";
import type { Waiting } from "../contract/job.ts";
import { jobPage, jobTable } from "./job.ts";
import { unpainted } from "./paint.ts";

const now = Date.parse("2026-05-01T12:10:00.000Z");
const question: Waiting = {
  kind: "question",
  id: "toolu_1",
  questions: [
    {
      question: "Which ones?\u001B[2J",
      header: "Parts",
      options: [{ label: "API\u001B]0;owned\u0007", description: "The\nroutes" }],
      multi_select: true,
    },
  ],
  plan: null,
  asked_at: "2026-05-01T12:01:00.000Z",
  until: "2026-05-02T12:01:00.000Z",
};
const asking = (waiting: Waiting) => sampleJob({ status: "running", waiting });

test("a job that asks is waiting in the list; the page has the question, its options and the commands that answer", () => {
  const job = asking(question);
  expect(jobTable([job], { paint: unpainted, now }).split("\n")[1]).toMatch(
    /^6f1c1a52 {2}waiting .* → Which ones\?$/,
  );
  const page = jobPage(job, { paint: unpainted, now });
  expect(page).toMatch(/^Status +waiting$/m);
  expect(page).toMatch(/^Question +Which ones\? {2}\(one or several\)\n +1 {2}API {2}The routes$/m);
  expect(page).toMatch(/^Answer until +2026-05-02T12:01:00.000Z$/m);
  expect(page).toMatch(
    /^Next +svc answer 6f1c1a52 "…" +# answer in own words\n +svc answer 6f1c1a52 --choice 1 /m,
  );
  expect(page).not.toContain("\u001B");
});

test("a plan is shown with what approves it and what sends it back", () => {
  const plan = { ...question, kind: "plan" as const, questions: [], plan: "# Plan\n\n1. Mend it\u001B[31m" };
  const page = jobPage(asking(plan), { paint: unpainted, now });
  expect(page).toMatch(/^Plan +# Plan\n\n +1. Mend it$/m);
  expect(page).toMatch(
    /^Next +svc answer 6f1c1a52 --approve +# go on by the plan\n +svc answer 6f1c1a52 --send-back "…"/m,
  );
});

test("a job whose model is away runs; it says when the model is asked again, and asks for no answer", () => {
  const until = "2026-05-01T12:00:20.000Z";
  const job = sampleJob({
    status: "running",
    waiting: { ...question, kind: "model", questions: [], until },
  });
  const said = `the model, which did not answer: asked again at ${until}`;
  expect(jobTable([job], { paint: unpainted, now }).split("\n")[1]).toMatch(/^6f1c1a52 {2}running /);
  expect(jobTable([job], { paint: unpainted, now })).toContain(`→ waits for ${said}`);
  const page = jobPage(job, { paint: unpainted, now });
  expect(page).toContain(said);
  expect(page).not.toContain("svc answer");
});

test("a job that waits for a usage limit, or is held for one, is limited; it says until when, and asks for no answer", () => {
  const until = "2026-05-01T13:00:00.000Z";
  const parked = sampleJob({
    status: "running",
    waiting: { ...question, kind: "limit", questions: [], until },
  });
  const held = sampleJob({ status: "queued", held: { reason: "limit", until } });
  for (const job of [parked, held]) {
    expect(jobTable([job], { paint: unpainted, now }).split("\n")[1]).toMatch(
      /^6f1c1a52 {2}limited .* → waits for the usage limit until 2026-05-01T13:00:00.000Z$/,
    );
    const page = jobPage(job, { paint: unpainted, now });
    expect(page).toMatch(/^Status +limited$/m);
    expect(page).toMatch(/^Waits for +the usage limit until 2026-05-01T13:00:00.000Z$/m);
    expect(page).not.toContain("svc answer");
  }
  expect(jobPage(sampleJob(), { paint: unpainted, now })).not.toContain("Waits for");
});
