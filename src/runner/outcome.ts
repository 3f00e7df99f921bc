import type { TurnOutcome } from "../agents/agent.ts";
import { type Check, failsJob } from "../contract/check.ts";
import type { Outcome, Report } from "../contract/job.ts";
import { cutEnd } from "../lib/tail-buffer.ts";

type Facts = {
  /** Whether the branch has other commits than before the agent started. */
  changed: boolean;
  /** How the checks of the changes went in the end. */
  checks: readonly Pick<Check, "status">[];
  /** The profile may only read: all changes are discarded. */
  readOnly: boolean;
  /** What the agent reports; null: nothing. */
  report: Report | null;
  /** Its last words. */
  text: string;
};

export type Judged = {
  outcome: Outcome;
  /** What the agent wants to know; null: nothing. */
  question: string | null;
};

/**
 * What came of an agent that ended well. What git shows comes first, what the agent reports second.
 *
 * | changed | `read_only` | report             | last sentence ends with `?` | outcome                              |
 * |---------|-------------|--------------------|-----------------------------|--------------------------------------|
 * | yes     |             |                    |                             | `changed`; a question is a warning   |
 * | and checks are red as before        |        |                             | `changed`; they are a warning        |
 * | and red |             |                    |                             | `checks_failed`: the job fails       |
 * | no      | yes         | no_change          |                             | `no_change`                          |
 * | no      | yes         | any other, or none |                             | `answered`                           |
 * | no      | no          | question           |                             | `question`: the job fails            |
 * | no      | no          | answered           |                             | `answered`                           |
 * | no      | no          | changed, no_change |                             | `no_change`                          |
 * | no      | no          | none               | yes                         | `question`: the job fails            |
 * | no      | no          | none               | no                          | `no_change`                          |
 */
export const judge = ({ changed, checks, readOnly, report, text }: Facts): Judged => {
  const question = readOnly ? null : questionOf(report, text);
  if (changed) return { outcome: checks.some(failsJob) ? "checks_failed" : "changed", question };
  if (question !== null) return { outcome: "question", question };
  const says = report?.outcome ?? null;
  const isAnswer = readOnly ? says !== "no_change" : says === "answered";
  return { outcome: isAnswer ? "answered" : "no_change", question };
};

/** The question that is an agent's last word; null: there is none. */
const questionOf = (report: Report | null, text: string): string | null => {
  const isAsking = report === null ? endsWithQuestion.test(text) : report.outcome === "question";
  if (!isAsking) return null;
  return cutEnd(report?.question || lastParagraph(text) || (report?.summary ?? ""), maxBytes);
};

/** Closing quotes and marks of Markdown may follow. */
const endsWithQuestion = /[?？؟]["'”’»)\]*_`\s]*$/;

const lastParagraph = (text: string): string =>
  text
    .trim()
    .split(/\n\s*\n/)
    .at(-1) ?? "";

/** What the agent says it did. */
export const summaryOf = ({ report, text }: Pick<TurnOutcome, "report" | "text">): string | null =>
  cutEnd((report?.summary ?? text).trim(), maxBytes) || null;

/** Longest summary and question, bytes. */
const maxBytes = 2048;
