import type { Job, Question, Waiting } from "../contract/job.ts";
import { aligned, type Fact } from "./columns.ts";
import { sanitise, oneLine } from "./sanitise.ts";

/** A question, and its options with the numbers that `svc answer --choice` takes. */
export const questionLines = ({ question, options, multi_select: isMulti }: Question): string[] => [
  ...`${sanitise(question).trim()}${isMulti ? "  (one or several)" : ""}`.split("\n"),
  ...aligned(
    options.map(({ label, description }, at) => [`  ${at + 1}`, oneLine(label), oneLine(description)]),
  ),
];

/** What is asked, in a few words. */
export const waitingLine = ({ questions }: Waiting): string =>
  oneLine(questions[0]?.question.slice(0, 500) ?? "its plan to be approved");

/** What a person is asked, whole. */
export const waitingLines = ({ questions, plan }: Waiting): string[] => [
  ...questions.flatMap(questionLines),
  ...(plan === null ? [] : sanitise(plan).trim().split("\n")),
];

export const waitingFacts = ({ waiting }: Job, shorten: (text: string) => string): Fact[] =>
  waiting
    ? [
        ...waiting.questions.map((one): Fact => ["Question", questionLines(one).join("\n"), "prose"]),
        ["Plan", waiting.plan === null ? null : shorten(sanitise(waiting.plan).trim()), "prose"],
        ["Answer until", waiting.until],
      ]
    : [];

/** The commands that answer. */
export const answerCommands = ({ id, waiting }: Job): [command: string, meaning: string][] => {
  const answer = `svc answer ${id.slice(0, 8)}`;
  if (!waiting) return [];
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
