import type { Client } from "../client/client.ts";
import { ClientError } from "../client/client-error.ts";
import { delay } from "../client/delay.ts";
import type { AnswerInput } from "../contract/answer.ts";
import { asksPerson, type Job, type Question, type Waiting } from "../contract/job.ts";
import { counted } from "../view/columns.ts";
import { questionLines, waitingLines } from "../view/waiting.ts";
import { askMessage } from "./chat/prompt.ts";
import { writeText } from "./commands/input.ts";
import { CliError, usageError } from "./failure.ts";
import { note, painter, print } from "./print.ts";

/** What a person says to what a job waits for. */
export type Said = Partial<Omit<AnswerInput, "job_id" | "id">>;

/** The labels of the options with these numbers, from 1. */
export const labelsOf = ({ options, multi_select: isMulti }: Question, numbers: number[]): string[] => {
  if (options.length === 0) throw usageError("The question has no options: answer it in own words");
  if (numbers.length > 1 && !isMulti)
    throw usageError("One option of this question can be chosen, not several");
  return numbers.map((number) => {
    const option = options[number - 1];
    if (option === undefined)
      throw usageError(`There is no option ${number}: the question has ${counted(options.length, "option")}`);
    return option.label;
  });
};

/** The answer to one question: labels for numbers, anything else as own words. */
const answerOf = (question: Question, words: string): string | string[] => {
  if (question.options.length === 0 || !/^\d+([ ,]+\d+)*$/.test(words)) return words;
  const labels = labelsOf(question, words.split(/[ ,]+/).map(Number));
  return question.multi_select ? labels : (labels[0] ?? words);
};

/** Asks on the terminal. Null: the person leaves, or the signal aborts. */
export const askPerson = (waiting: Waiting, signal?: AbortSignal): Promise<Said | null> =>
  waiting.plan === null ? askQuestions(waiting, signal) : askAboutPlan(waiting, waiting.plan, signal);

const askQuestions = async ({ questions }: Waiting, signal?: AbortSignal): Promise<Said | null> => {
  const answers: [string, string | string[]][] = [];
  for (const question of questions) {
    show(questionLines(question));
    const hint =
      question.options.length === 0
        ? "Your answer"
        : question.multi_select
          ? "Numbers, as 1,3, or own words"
          : "A number, or own words";
    const answer = await asked(hint, (words) => answerOf(question, words), signal);
    if (answer === null) return null;
    answers.push([question.question, answer]);
  }
  return { answers: Object.fromEntries(answers) };
};

const askAboutPlan = async (waiting: Waiting, plan: string, signal?: AbortSignal): Promise<Said | null> => {
  show([
    ...waitingLines(waiting),
    "",
    "  1  Approve",
    "  2  Change it in your editor, and approve that",
    "  3  Refuse: the job ends",
  ]);
  const about = async (words: string): Promise<Said> => {
    if (/^(1|ok|y|yes|approve)$/i.test(words)) return { approve: true };
    if (/^(3|refuse)$/i.test(words)) return { approve: false };
    if (!/^(2|edit)$/i.test(words)) return { approve: false, feedback: words };
    const changed = await writeText(plan);
    if (changed.trim() === "") throw new CliError("The plan is empty: it is still to be answered");
    return changed === plan.trimEnd() ? { approve: true } : { approve: true, plan: changed };
  };
  return await asked("A number, or words that send the plan back", about, signal);
};

const show = (lines: string[]): void => print(["", ...lines].join("\n"));

/** Asks until something is said that can be understood. */
const asked = async <Answer>(
  hint: string,
  understood: (words: string) => Answer | Promise<Answer>,
  signal: AbortSignal | undefined,
): Promise<Answer | null> => {
  print(painter(process.stdout)("dim", hint));
  for (;;) {
    const words = (await askMessage([], signal))?.trim();
    if (words === undefined) return null;
    try {
      if (words !== "") return await understood(words);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      note(error.message);
    }
  }
};

/** Milliseconds between two looks at whether somebody else has answered. */
const lookMs = 2000;

/** Asks on the terminal and sends the answer; another person may be faster. False: nobody has answered. */
export const answerHere = async (client: Client, job: Job, signal: AbortSignal): Promise<boolean> => {
  const { waiting } = job;
  if (!asksPerson(waiting)) return true;
  const over = new AbortController();
  const isOver = untilAnswered(client, job.id, waiting.id, AbortSignal.any([signal, over.signal]));
  let isElsewhere = false;
  void isOver.then(
    () => ((isElsewhere = true), over.abort()),
    () => undefined,
  );
  try {
    const said = await askPerson(waiting, AbortSignal.any([signal, over.signal]));
    signal.throwIfAborted();
    if (said === null && !isElsewhere) return false;
    if (said !== null) {
      await client.answer_job({ job_id: job.id, id: waiting.id, ...said }, { signal });
      return true;
    }
  } catch (error) {
    if (!(error instanceof ClientError && error.status === 409)) throw error;
  } finally {
    over.abort();
  }
  note("It waits for this no longer: somebody else has answered, or it has ended");
  return true;
};

const untilAnswered = async (client: Client, job_id: string, id: string, signal: AbortSignal) => {
  for (;;) {
    await delay(lookMs, signal);
    const job = await client.get_job({ job_id }, { signal }).then(
      (answer) => answer.job,
      () => null,
    );
    if (job !== null && job.waiting?.id !== id) return;
  }
};
