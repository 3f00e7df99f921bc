import { asksPerson, limitedUntil, type Job, type Question, type Waiting } from "../contract/job.ts";
import type { JobEvent } from "../contract/event.ts";
import { aligned, type Fact } from "./columns.ts";
import { sanitise, oneLine } from "./sanitise.ts";

/** A question, and its options with the numbers that `svc answer --choice` takes. */
export const questionLines = ({ question, options, multi_select: isMulti }: Question): string[] => [
  ...`${sanitise(question).trim()}${isMulti ? "  (one or several)" : ""}`.split("\n"),
  ...aligned(
    options.map(({ label, description }, at) => [`  ${at + 1}`, oneLine(label), oneLine(description)]),
  ),
];

/** What it asks, or waits for, in a few words; null: nothing. */
export const waitingLine = (job: Pick<Job, "waiting" | "held">): string | null => {
  const until = limitedUntil(job);
  if (until !== null) return `waits for the usage limit until ${oneLine(until)}`;
  if (!job.waiting) return null;
  return oneLine(job.waiting.questions[0]?.question.slice(0, 500) ?? "its plan to be approved");
};

/** What a job's event says of a usage limit for which it waits; null: nothing. */
export const limitNote = (event: JobEvent): string | null =>
  event.type === "rate_limit" && event.status === "waits"
    ? `waits for the usage limit until ${oneLine(event.resets_at ?? "")}`
    : null;

/** What a person is asked, whole. */
export const waitingLines = ({ questions, plan }: Waiting): string[] => [
  ...questions.flatMap(questionLines),
  ...(plan === null ? [] : sanitise(plan).trim().split("\n")),
];

export const waitingFacts = (job: Job, shorten: (text: string) => string): Fact[] => {
  const { waiting } = job;
  if (!asksPerson(waiting))
    return [["Waits for", limitedUntil(job) && `the usage limit, until ${limitedUntil(job)}`]];
  return [
    ...waiting.questions.map((one): Fact => ["Question", questionLines(one).join("\n"), "prose"]),
    ["Plan", waiting.plan === null ? null : shorten(sanitise(waiting.plan).trim()), "prose"],
    ["Answer until", waiting.until],
  ];
};

/** The commands that answer. */
export const answerCommands = ({ id, waiting }: Job): [command: string, meaning: string][] => {
  const answer = `svc answer ${id.slice(0, 8)}`;
  if (!asksPerson(waiting)) return [];
  if (waiting.kind === "plan")
    return [
      [`${answer} --approve`, "go on by the plan"],
      [`${answer} --send-back "…"`, "have it planned anew"],
    ];
  const hasOptions = (waiting.questions[0]?.options.length ?? 0) > 0;
  return [
    [`${answer} "…"`, "answer in own words"],
    ...(hasOptions ? [[`${answer} --choice 1`, "choose an option"] as [string, string]] : []),
  ];
};

/** What is asked, and what answers it. */
export const askedText = (job: Job): string =>
  [
    `Job ${job.id} waits for ${job.waiting?.kind === "plan" ? "its plan to be approved" : "an answer"}:`,
    ...(job.waiting ? waitingLines(job.waiting) : []),
    `Answer it:  ${answerCommands(job)
      .map(([command]) => command)
      .join("  or  ")}`,
  ].join("\n");
