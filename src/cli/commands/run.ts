import type { Client } from "../../client/client.ts";
import type { Job } from "../../contract/job.ts";
import { findCheckout } from "../checkout.ts";
import { confirm } from "../confirm.ts";
import { connect, type Connection } from "../connect.ts";
import { CliError, exitCode, usageError, type ExitCode } from "../failure.ts";
import { rememberJob } from "../job-id.ts";
import { waitForJob } from "../live/follow.ts";
import { note, print, printJson } from "../print.ts";
import { chosen } from "../../view/job.ts";
import { oneLine } from "../../view/sanitise.ts";
import { readText, repositoryOf, writeText } from "./input.ts";
import { attachedOf, optionsOf, type JobFlags } from "./job-options.ts";

export type RunOptions = JobFlags & {
  /** False: none, and none is inferred. */
  repo?: string | false;
  profile: string;
  baseRef?: string;
  also?: string[];
  worktreeId?: string;
  sessionId?: string;
  filePath?: string;
  createRepo?: boolean;
  public?: boolean;
  idempotencyKey?: string;
  editor?: boolean;
  wait?: boolean;
  json?: boolean;
};

/** `svc run` */
export const run = async (argument: string | undefined, options: RunOptions): Promise<ExitCode> => {
  checkFlags(options);
  const task = await readTask(argument, options.editor);
  const connection = connect();
  const input = { task, ...(await placeOf(options, connection)), ...restOf(options, connection) };
  return await submit(connection.client, { ...input, ...optionsOf(options) }, options);
};

type TaskInput = Parameters<Client["run_task"]>[0];

type Following = Pick<RunOptions, "idempotencyKey" | "wait" | "json" | "attach">;

/** Submits, prints the id, and waits if asked to. */
export const submit = async (
  client: Client,
  input: TaskInput,
  { wait = false, json = false, idempotencyKey, ...flags }: Following,
): Promise<ExitCode> => {
  const attach = await attachedOf(flags);
  const body = await client.run_task(input, {
    attach,
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  });
  const { job } = body;
  await rememberJob(job.id);
  if (json && !wait) printJson(body);
  if (!json) announce(job, wait);
  return wait ? waitForJob({ client, job, json }) : exitCode.ok;
};

const announce = (job: Job, wait: boolean): void => {
  print(job.id);
  if (wait || process.stderr.isTTY) note(`${job.status}, ${chosen(job)}`);
  // Without a repository the user has just confirmed it.
  if (job.repo_url !== "") for (const warning of job.warnings) note(`Warning: ${oneLine(warning)}`);
  if (process.stderr.isTTY && !wait) note(`Follow it with: svc logs -f ${job.id.slice(0, 8)}`);
};

/** The task of the command line, of standard input, or of the user's editor. */
export const readTask = async (argument: string | undefined, editor = false): Promise<string> => {
  const empty = 'give it in quotes, as svc run "…", on standard input, or in your editor with -e';
  if (editor) return readText(await writeText(argument ?? ""), { noun: "task", longest, empty });
  if (argument === undefined && process.stdin.isTTY) throw usageError(`There is no task: ${empty}`);
  return readText(argument ?? "-", { noun: "task", longest, empty });
};

/** See `RunTaskInput` of the contract. */
const longest = 100_000;

const checkFlags = (options: RunOptions): void => {
  // For example after a failed `ID=$(svc worktrees prepare …)`: the job would run in an empty directory.
  if (options.worktreeId?.trim() === "") {
    throw usageError("--worktree-id is empty: give the id of a worktree (svc worktrees list shows them)");
  }
  if (options.public === true && options.createRepo !== true) {
    throw usageError("--public says how a repository is created: it goes with --create-repo");
  }
};

/** The repository and base that are named, or those of the checkout around the current directory. */
export const placeOf = async (
  {
    repo,
    baseRef,
    worktreeId,
    sessionId,
    json,
  }: Pick<RunOptions, "repo" | "baseRef" | "worktreeId" | "sessionId" | "json">,
  connection: Connection,
): Promise<Pick<TaskInput, "repo_url" | "base_ref">> => {
  const named = { repo_url: "", base_ref: baseRef ?? "" };
  if (typeof repo === "string" && repo !== "")
    return { ...named, repo_url: repositoryOf(repo, connection.gitHost) };
  if (repo === false || (worktreeId ?? sessionId ?? "") !== "") return named;
  const checkout = await findCheckout(baseRef, connection);
  if (checkout !== null) {
    note(checkout.note);
    return { repo_url: checkout.repoUrl, base_ref: checkout.baseRef };
  }
  note("No --repo: the agent will work in an empty directory, and nothing is pushed");
  // Scripts go on.
  if (json !== true && !(await confirm("Go on? (y/N; --no-repo does not ask) ", true)))
    throw new CliError("Nothing was submitted: give --repo");
  return named;
};

/** `URL[@ref]`: the last `@` behind the last `/` parts them. */
const furtherOf = (word: string, gitHost: string) => {
  const [, url = word, base_ref = ""] = /^(.*\/[^/]*)@([^@/]+)$/.exec(word) ?? [];
  return { repo_url: repositoryOf(url, gitHost), base_ref };
};

const restOf = (options: RunOptions, connection: Connection) => ({
  profile: options.profile,
  session_id: options.sessionId ?? "",
  file_path: options.filePath ?? "",
  create_repo: options.createRepo ?? false,
  private: options.public !== true,
  worktree_id: options.worktreeId ?? "",
  allow_hosts: options.allowHost ?? [],
  repositories: (options.also ?? []).map((word) => furtherOf(word, connection.gitHost)),
});
