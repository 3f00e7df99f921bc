import type { Client } from "../../client/client.ts";
import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { usageError } from "../failure.ts";
import { note, print, printJson } from "../print.ts";
import { profile } from "../text/job-facts.ts";
import { fromHere } from "./from-here.ts";
import { readTask } from "./read-task.ts";
import { waitForJob } from "./wait-for-job.ts";

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
  const input = { task: await readTask(argument, process.stdin), ...inputOf(options) };
  const { client } = connect();
  if (input.repo_url === "" && input.worktree_id === "" && input.session_id === "")
    note("No --repo: the agent will work in an empty directory, and nothing is pushed");
  const body = await client.run_task(input, idempotencyKey === undefined ? {} : { idempotencyKey });
  const { job } = body;
  if (wait) {
    if (!json) print(job.id);
    return waitForJob({ client, job, json });
  }
  if (json) printJson(body);
  else print(job.id);
  if (process.stderr.isTTY && !json) {
    note(`${job.status}, profile ${profile(job)}. Follow it with: svc job ${job.id} --events`);
  }
  return exitCode.ok;
};

type TaskInput = Omit<Parameters<Client["run_task"]>[0], "task">;

const inputOf = (options: RunOptions): TaskInput => {
  // As after `ID=$(svc worktrees prepare …)` that failed: the job would run in an empty directory.
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
