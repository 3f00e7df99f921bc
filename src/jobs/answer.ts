import type { JobPatch } from "../store/job-store.ts";
import { cutEnd } from "../lib/tail-buffer.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Answer, AnswerInput } from "../contract/answer.ts";
import type { Waiting } from "../contract/job.ts";

/**
 * What an input means for what the job waits for.
 *
 * | the job waits for | input                              | answer                                        |
 * |-------------------|------------------------------------|-----------------------------------------------|
 * | anything          | `id` of another question           | `question_changed`                            |
 * | nothing, a limit, the model |                          | `not_waiting`                                 |
 * | a question        | `answers` to its questions, `text` | `answers`; `text` is that to the first one that has none |
 * | a question        | none of them, or unknown questions | `invalid_request`                             |
 * | a plan            | `approve: true`                    | `approve`, with `feedback` and `plan`         |
 * | a plan            | `approve: false`, `feedback`       | `send_back`                                   |
 * | a plan            | `approve: false`                   | `refuse`                                      |
 * | a plan            | no `approve`                       | `invalid_request`                             |
 *
 * @throws ServiceError
 */
export const answerTo = (waiting: Waiting | null, input: AnswerInput): Answer => {
  if (waiting === null)
    throw new ServiceError("not_waiting", "The job waits for no answer; svc job shows what it does");
  if (waiting.kind === "limit")
    throw new ServiceError(
      "not_waiting",
      `The job waits for no answer but for a usage limit of the model: it goes on by itself at ${waiting.until}`,
    );
  if (waiting.kind === "model")
    throw new ServiceError(
      "not_waiting",
      `The job waits for no answer but for the model, which did not answer: it is asked again by itself at ${waiting.until}`,
    );
  if (input.id !== "" && input.id !== waiting.id)
    throw new ServiceError(
      "question_changed",
      `id: the job waits for another answer by now, ${waiting.id}; read its waiting anew`,
    );
  return waiting.kind === "plan" ? aboutPlan(input) : toQuestions(waiting, input);
};

const aboutPlan = ({ approve, feedback, plan, answers, text }: AnswerInput): Answer => {
  if (text !== "" || Object.keys(answers).length > 0)
    throw invalid("the job waits for a plan to be approved: give approve, and feedback in words");
  if (approve === null)
    throw invalid("approve: must be true or false: the job waits for a plan to be approved");
  if (approve) return { kind: "approve", feedback, plan: plan === "" ? null : plan };
  if (plan !== "") throw invalid("plan: goes with approve: true only; say in feedback what to plan anew");
  return feedback === "" ? { kind: "refuse" } : { kind: "send_back", feedback };
};

const toQuestions = ({ questions }: Waiting, input: AnswerInput): Answer => {
  const { text, answers, approve, feedback, plan } = input;
  if (approve !== null || feedback !== "" || plan !== "")
    throw invalid("the job waits for answers to questions: give answers, or text");
  const asked = questions.map(({ question }) => question);
  const unknown = Object.keys(answers).find((question) => !asked.includes(question));
  if (unknown !== undefined)
    throw invalid(
      `answers: ${JSON.stringify(unknown.slice(0, 200))} is not asked; asked is ${asked.map((one) => JSON.stringify(one)).join(", ")}`,
    );
  const open = asked.find((question) => answers[question] === undefined);
  const all = text === "" || open === undefined ? answers : { ...answers, [open]: text };
  if (Object.keys(all).length === 0) throw invalid("give answers, by the text of each question, or text");
  return { kind: "answers", answers: all };
};

/** What becomes of a job whose question nobody has answered. */
export const unanswered = (id: string, { kind, questions }: Waiting): JobPatch => {
  const text = cutEnd(questions.map(({ question }) => question).join(" "), 2048);
  return kind === "plan"
    ? { outcome: "plan", ...needsInput(id, "Nobody has approved the agent's plan.") }
    : { outcome: "question", ...needsInput(id, `Nobody has answered the agent's question: ${text}`) };
};

/** The end of a job whose agent cannot go on without an answer. */
export const needsInput = (id: string, why: string): JobPatch => ({
  failure_reason: "needs_input",
  retryable: true,
  error: `${why}\nWhat to do: svc continue ${id.slice(0, 8)} "your answer".`,
});

const invalid = (message: string): ServiceError => new ServiceError("invalid_request", message);
