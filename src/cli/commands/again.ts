import { retryInput } from "../../client/again.ts";
import { isFinal, type Job } from "../../contract/job.ts";
import { continueInput } from "../../contract/message.ts";
import type { RunOptions } from "../../contract/run-options.ts";
import { connect } from "../connect.ts";
import { CliError, usageError, type ExitCode } from "../failure.ts";
import { findJob } from "../job-id.ts";
import { note } from "../print.ts";
import { repositoryOf } from "./input.ts";
import { optionsOf, type JobFlags } from "./job-options.ts";
import { readTask, submit } from "./run.ts";

type AgainFlags = JobFlags & {
  profile?: string;
  repo?: string;
  baseRef?: string;
  filePath?: string;
  editor?: boolean;
  wait?: boolean;
  json?: boolean;
};

/** `svc retry`: the same task once more, from the start. */
export const retry = async (word: string, flags: AgainFlags): Promise<ExitCode> => {
  const { client, gitHost } = connect();
  const job = await findJob(client, word);
  if (!isFinal(job.status))
    throw new CliError(
      `Job ${job.id} is ${job.status}: wait for its end (svc wait ${job.id}), or cancel it first`,
    );
  const { files, branch } = job.options;
  if (files.length > 0 && flags.attach === undefined)
    throw usageError(
      `The job had files (${files.join(", ")}), which the service does not give back: name them again with --attach`,
    );
  const isTaken = branch !== null && job.branch !== null;
  if (isTaken && flags.branch === undefined)
    note(`The branch ${branch} is that of the first job: this one gets another, or name one with --branch`);
  const task = flags.editor === true ? await readTask(job.task, true) : job.task;
  const input = { ...(await retryInput(client, job)), task };
  return submit(client, { ...withFlags(job, input, flags), ...placeIn(job, flags, gitHost) }, flags);
};

/** Another place than the job had; empty: none is named. */
const placeIn = (job: Job, { repo, baseRef }: AgainFlags, gitHost: string) =>
  (repo ?? baseRef) !== undefined && {
    repo_url: repo === undefined ? job.repo_url : repositoryOf(repo, gitHost),
    base_ref: baseRef ?? "",
    worktree_id: "",
    session_id: "",
  };

/** `svc continue`: another task for the agent that ran the job, in its session, worktree and branch. */
export const continueJob = async (word: string, argument: string | undefined, flags: AgainFlags) => {
  const { client } = connect();
  const job = await findJob(client, word);
  if (job.session_id === null)
    throw new CliError(
      `The agent of job ${job.id} had not begun, so there is nothing to continue: svc retry ${job.id}`,
    );
  if (flags.deliver === true && (argument !== undefined || flags.editor === true))
    throw usageError("--deliver starts no agent, so it takes no task: leave one of them out");
  const task = flags.deliver === true ? job.task : await readTask(argument, flags.editor);
  const more = { ...continueInput(job, job.session_id, task), base_ref: flags.baseRef ?? "" };
  return submit(client, withFlags(job, more, flags), flags);
};

/** What a job is submitted with again, and what the command line changes of it. */
const withFlags = <Input extends { options?: Partial<RunOptions> }>(
  job: Job,
  input: Input,
  flags: AgainFlags,
) => ({
  ...input,
  profile: flags.profile ?? job.profile,
  file_path: flags.filePath ?? "",
  allow_hosts: [...job.allow_hosts, ...(flags.allowHost ?? [])],
  ...optionsOf(flags, input.options),
});
