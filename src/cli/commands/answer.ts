import { readFile } from "node:fs/promises";
import { asksPerson, type Job } from "../../contract/job.ts";
import { views } from "../../view/views.ts";
import { askedText, waitingLine } from "../../view/waiting.ts";
import { askPerson, labelsOf, type Said } from "../answering.ts";
import { connect } from "../connect.ts";
import { CliError, exitCode, usageError } from "../failure.ts";
import { findJob } from "../job-id.ts";
import { printAnswer } from "../print.ts";
import { readText } from "./input.ts";

type AnswerFlags = {
  choice?: number[];
  file?: string;
  approve?: boolean;
  plan?: string;
  sendBack?: string;
  refuse?: boolean;
  json?: boolean;
};

/** `svc answer`: what was said on the command line, or else on the terminal. */
export const answer = async (word: string, words: string | undefined, flags: AnswerFlags) => {
  checkFlags(words, flags);
  const { client } = connect();
  const job = await findJob(client, word);
  const said = (await saidBy(job, words, flags)) ?? (await askedHere(job, flags));
  if (said === null) return exitCode.interrupted;
  const body = await client.answer_job({ job_id: job.id, id: job.waiting?.id ?? "", ...said });
  return printAnswer(body, flags.json, views.answer_job);
};

/** One of these answers; words go with --approve, too. */
const checkFlags = (words: string | undefined, flags: AnswerFlags): void => {
  const given = [
    words !== undefined && flags.approve !== true && "the text",
    flags.choice !== undefined && "--choice",
    flags.file !== undefined && "--file",
    flags.approve === true && "--approve",
    flags.sendBack !== undefined && "--send-back",
    flags.refuse === true && "--refuse",
  ].filter((name) => name !== false);
  if (given.length > 1) throw usageError(`Give one of ${given.join(" and ")}`);
  if (flags.plan !== undefined && flags.approve !== true)
    throw usageError("--plan is the plan to go on by: it goes with --approve");
};

/** Null: nothing was said. */
const saidBy = async (job: Job, words: string | undefined, flags: AnswerFlags): Promise<Said | null> => {
  if (flags.approve === true)
    return {
      approve: true,
      feedback: words ?? "",
      ...(flags.plan !== undefined && { plan: await textOf(flags.plan, "--plan") }),
    };
  if (flags.sendBack !== undefined)
    return {
      approve: false,
      feedback: await readText(flags.sendBack, { ...ofText, empty: "say what to plan anew" }),
    };
  if (flags.refuse === true) return { approve: false };
  return await answerBy(job, words, flags);
};

/** To a question. */
const answerBy = async (
  job: Job,
  words: string | undefined,
  { choice, file }: AnswerFlags,
): Promise<Said | null> => {
  const text = file === undefined ? words : await textOf(file, "--file");
  if (text === undefined && choice === undefined) return null;
  // The service says that it waits for nothing.
  if (!asksPerson(job.waiting)) return { text: text ?? "" };
  const [asked] = job.waiting.questions;
  if (asked === undefined) throw usageError(askedText(job));
  if (choice === undefined)
    return { text: await readText(text ?? "", { ...ofText, empty: "say it in words" }) };
  const labels = labelsOf(asked, choice);
  return { answers: { [asked.question]: asked.multi_select ? labels : (labels[0] ?? "") } };
};

const ofText = { noun: "answer", longest: 100_000 } as const;

/** The text of a file; `-`: of standard input. */
const textOf = async (path: string, flag: string): Promise<string> => {
  const text =
    path === "-"
      ? path
      : await readFile(path, "utf8").catch((error: Error) => {
          throw usageError(`${flag} ${path}: it cannot be read: ${error.message}`);
        });
  return await readText(text, { ...ofText, empty: `${flag} has no text` });
};

const askedHere = async (job: Job, { json }: AnswerFlags): Promise<Said | null> => {
  const { id, status, waiting } = job;
  if (!asksPerson(waiting))
    throw new CliError(
      `Job ${id} waits for no answer, it ${waitingLine(job) ?? `is ${status}`}: svc job ${id.slice(0, 8)} shows it`,
      { code: "not_waiting" },
    );
  if (!process.stdin.isTTY || !process.stdout.isTTY || json === true) throw usageError(askedText(job));
  return await askPerson(waiting);
};
