import type { Client } from "../../client/client.ts";
import { isFinal, type Job } from "../../contract/job.ts";
import { connect } from "../connect.ts";
import { CliError, usageError, type ExitCode } from "../failure.ts";
import { resolveJobId } from "../job-id.ts";
import { note } from "../print.ts";
import { optionsOf, type JobFlags } from "./job-options.ts";
import { readTask, submit } from "./run.ts";

type AgainFlags = JobFlags & {
  profile?: string;
  filePath?: string;
  editor?: boolean;
  wait?: boolean;
  json?: boolean;
};

/** `svc retry`: the same task once more, from the start. */
export const retry = async (word: string, flags: AgainFlags): Promise<ExitCode> => {
  const { client } = connect();
  const job = await find(client, word);
  if (!isFinal(job.status))
    throw new CliError(
      `Job ${job.id} is ${job.status}: wait for its end (svc wait ${job.id}), or cancel it first`,
    );
  const { files, branch, ...kept } = job.options;
  if (files.length > 0 && flags.file === undefined)
    throw usageError(
      `The job had files (${files.join(", ")}), which the service does not give back: name them again with --file`,
    );
  const isTaken = branch !== null && job.branch !== null;
  if (isTaken && flags.branch === undefined)
    note(`The branch ${branch} is that of the first job: this one gets another, or name one with --branch`);
  const input = {
    task: flags.editor === true ? await readTask(job.task, true) : job.task,
    profile: flags.profile ?? job.profile,
    file_path: flags.filePath ?? "",
    ...(await placeOf(client, job)),
    ...(await optionsOf(flags, { ...kept, branch: isTaken ? null : branch })),
  };
  return submit(client, input, flags);
};

/** `svc continue`: another task for the agent that ran the job, in its session, worktree and branch. */
export const continueJob = async (
  word: string,
  argument: string | undefined,
  flags: AgainFlags,
): Promise<ExitCode> => {
  const { client } = connect();
  const job = await find(client, word);
  if (job.session_id === null)
    throw new CliError(
      `The agent of job ${job.id} had not begun, so there is nothing to continue: svc retry ${job.id}`,
    );
  const { model, timeout_seconds, max_budget_usd, max_turns } = job.options;
  const input = {
    task: await readTask(argument, flags.editor),
    session_id: job.session_id,
    profile: flags.profile ?? job.profile,
    file_path: flags.filePath ?? "",
    ...(await optionsOf(flags, { model, timeout_seconds, max_budget_usd, max_turns })),
  };
  return submit(client, input, flags);
};

const find = async (client: Client, word: string): Promise<Job> =>
  (await client.get_job({ job_id: await resolveJobId(client, word) })).job;

/** Where the job ran: its repository, or the worktree or session that was there before it. */
const placeOf = async (client: Client, job: Job) => {
  const { id, worktree_id, session_id, created_at, repo_url, base_ref } = job;
  if (worktree_id === null || worktree_id === id)
    return { repo_url, base_ref: repo_url === "" ? "" : base_ref };
  const { jobs } = await client.list_jobs(session_id === null ? { limit: 1 } : { session_id, limit: 1000 });
  const isResumed = session_id !== null && jobs.some((each) => each.created_at < created_at);
  return isResumed ? { session_id } : { worktree_id };
};
