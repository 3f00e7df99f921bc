import { asksPerson, limitedUntil, type Job, type Question, type Waiting } from "../contract/job.ts";
import type { JobEvent } from "../contract/event.ts";
import { aligned, type Fact } from "./columns.ts";
import { duration } from "./quantities.ts";
import { sanitise, oneLine } from "./sanitise.ts";

/** A question, and its options with the numbers that `svc answer --choice` takes. */
export const questionLines = ({ question, options, multi_select: isMulti }: Question): string[] => [
  ...`${sanitise(question).trim()}${isMulti ? "  (one or several)" : ""}`.split("\n"),
  ...aligned(
    options.map(({ label, description }, at) => [`  ${at + 1}`, oneLine(label), oneLine(description)]),
  ),
];

type Waits = Pick<Job, "waiting" | "held">;

/** The question or event it waits for, in a few words; null: nothing. */
export const waitingLine = (job: Waits): string | null => {
  if (!asksPerson(job.waiting)) return pauseLine(job);
  return oneLine(job.waiting.questions[0]?.question.slice(0, 500) ?? "its plan to be approved");
};

/** The limit or model it waits for, no person; null: nothing. */
export const pauseLine = (job: Waits): string | null => {
  const until = limitedUntil(job);
  if (until !== null) return `waits for the usage limit until ${oneLine(until)}`;
  if (job.waiting?.kind !== "model") return null;
  return `waits for the model, which did not answer: asked again at ${oneLine(job.waiting.until)}`;
};

/** The usage limit or the model that an event of a job waits for; null: none. */
export const pauseNote = (event: JobEvent): string | null => {
  if (event.type === "rate_limit" && event.status === "waits")
    return `waits for the usage limit until ${oneLine(event.resets_at ?? "")}`;
  return event.type === "retry" && event.by === "service" ? `waits: ${retryText(event)}` : null;
};

/** `the model answered 529: asked again in 20 s (2 of 3)` */
export const retryText = (event: Extract<JobEvent, { type: "retry" }>): string => {
  const { status, retry, max_retries: most, delay_ms: delay } = event;
  const answer = status === null ? "did not answer" : `answered ${status}`;
  return `the model ${answer}: asked again in ${duration(delay)} (${retry} of ${most})`;
};

export const waitingLines = ({ questions, plan }: Waiting): string[] => [
  ...questions.flatMap(questionLines),
  ...(plan === null ? [] : sanitise(plan).trim().split("\n")),
];

export const waitingFacts = (job: Job, shorten: (text: string) => string): Fact[] => {
  const { waiting } = job;
  if (!asksPerson(waiting)) return [["Waits for", pauseLine(job)?.replace("waits for ", "") ?? null]];
  return [
    ...waiting.questions.map((one): Fact => ["Question", questionLines(one).join("\n"), "prose"]),
    ["Plan", waiting.plan === null ? null : shorten(sanitise(waiting.plan).trim()), "prose"],
    ["Answer until", waiting.until],
  ];
};

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

export const askedText = (job: Job): string =>
  [
    `Job ${job.id.slice(0, 8)} waits for ${job.waiting?.kind === "plan" ? "its plan to be approved" : "an answer"}:`,
    ...(job.waiting ? waitingLines(job.waiting) : []),
    ...answerCommands(job).map(([command], index) => `${index === 0 ? "Answer it:" : "or:"}  ${command}`),
  ].join("\n");
