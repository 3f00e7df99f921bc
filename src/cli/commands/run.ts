import type { Client } from "../../client/client.ts";
import { connect } from "../connect.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { waitForJob } from "../live/follow.ts";
import { note, print, printJson } from "../print.ts";
import { profile } from "../text/job-page.ts";
import { fromHere, readText } from "./input.ts";

export type RunOptions = {
  repo?: string;
  profile: string;
  baseRef?: string;
  worktreeId?: string;
  sessionId?: string;
  filePath?: string;
  createRepo?: boolean;
  public?: boolean;
  idempotencyKey?: string;
  wait?: boolean;
  json?: boolean;
};

/** `svc run` */
export const run = async (argument: string, options: RunOptions): Promise<ExitCode> => {
  const { wait = false, json = false, idempotencyKey } = options;
  const input = { task: await readText(argument, task), ...inputOf(options) };
  const { client } = connect();
  if (input.repo_url === "" && input.worktree_id === "" && input.session_id === "")
    note("No --repo: the agent will work in an empty directory, and nothing is pushed");
  const body = await client.run_task(input, idempotencyKey === undefined ? {} : { idempotencyKey });
  const { job } = body;
  if (json && !wait) printJson(body);
  if (!json) print(job.id);
  if (wait) return waitForJob({ client, job, json });
  if (process.stderr.isTTY && !json) {
    note(`${job.status}, profile ${profile(job)}. Follow it with: svc job ${job.id} --events`);
  }
  return exitCode.ok;
};

/** `longest`: see `RunTaskInput` of the contract. */
const task: Parameters<typeof readText>[1] = {
  noun: "task",
  longest: 100_000,
  empty: "say in plain words what the agent is to do",
  tooLong: (length) =>
    `The task has ${length} characters and may have 100,000: put the details in a file of the repository and name it in the task`,
};

type TaskInput = Omit<Parameters<Client["run_task"]>[0], "task">;

const inputOf = (options: RunOptions): TaskInput => {
  // For example after a failed `ID=$(svc worktrees prepare …)`: the job would run in an empty directory.
  if (options.worktreeId?.trim() === "") {
    throw usageError("--worktree-id is empty: give the id of a worktree (svc worktrees list shows them)");
  }
  if (options.worktreeId !== undefined && (options.createRepo === true || options.public === true)) {
    throw usageError(
      "--worktree-id runs in a repository that is there already: leave out --create-repo and --public",
    );
  }
  if (options.public === true && options.createRepo !== true) {
    throw usageError("--public says how a repository is created: it goes with --create-repo");
  }
  return {
    repo_url: fromHere(options.repo ?? ""),
    profile: options.profile,
    base_ref: options.baseRef ?? "",
    session_id: options.sessionId ?? "",
    file_path: options.filePath ?? "",
    create_repo: options.createRepo ?? false,
    private: options.public !== true,
    worktree_id: options.worktreeId ?? "",
  };
};
