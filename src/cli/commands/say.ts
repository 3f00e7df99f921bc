import { isFinal } from "../../contract/job.ts";
import { views } from "../../view/views.ts";
import { connect } from "../connect.ts";
import { confirm } from "../confirm.ts";
import { CliError, usageError, type ExitCode } from "../failure.ts";
import { rememberJob, resolveJobId } from "../job-id.ts";
import { printAnswer } from "../print.ts";
import { readText } from "./input.ts";

type SayFlags = {
  now?: boolean;
  later?: boolean;
  takeBack?: string;
  idempotencyKey?: string;
  json?: boolean;
};

/** `svc say`: a word to an agent that works, or one taken back. */
export const say = async (word: string, words: string | undefined, flags: SayFlags): Promise<ExitCode> => {
  const { takeBack, now, later, idempotencyKey, json } = flags;
  if (takeBack !== undefined && words !== undefined) throw usageError("Give a text or --take-back, not both");
  const { client } = connect();
  const job_id = await resolveJobId(client, word);
  if (takeBack !== undefined) {
    const body = await client.take_back_message({ job_id, message_id: takeBack });
    return printAnswer(body, json, views.take_back_message);
  }
  const text = await readText(words ?? "", {
    noun: "message",
    longest: 32_768,
    empty: "say it in words, in quotes",
  });
  const { job } = await client.get_job({ job_id });
  const question = `Job ${job.id.slice(0, 8)} has ended: start another one that continues it? (y/N) `;
  if (isFinal(job.status) && json !== true && !(await confirm(question, true)))
    throw new CliError("Nothing was said: the job has ended");
  const when = now === true ? "now" : later === true ? "later" : "next";
  const body = await client.message_job(
    { job_id, text, when },
    idempotencyKey === undefined ? {} : { idempotencyKey },
  );
  if (body.job !== undefined) await rememberJob(body.job.id);
  return printAnswer(body, json, views.message_job);
};
