import { Option, type Command } from "commander";
import { operations } from "../contract/operations.ts";
import { addAgentModeCommands } from "./agent-mode-commands.ts";
import { addCompletionCommand } from "./completion.ts";
import { addContainerCommands } from "./container-commands.ts";
import { addOperationCommands, type Asked } from "./operation-commands.ts";
import { addSecretsCommand } from "./secret-commands.ts";
import { createProgramOf, hintAtHelp, lazilyOf } from "./options.ts";
import { addServiceCommands } from "./service-commands.ts";
import { addRunCommands } from "./task-commands.ts";

/**
 * The commands with their options. A command's code is imported when it is called: imports make a start slow.
 * @param finish called with the exit code of the command that ran
 */
export const createProgram = (finish: (code: number) => void): Command => {
  const lazily = lazilyOf(finish);
  const program = createProgramOf(
    "svc",
    "Runs a coding agent on git repositories: submit a task, get back a branch or a pull request.",
    helpEnd,
  );
  addRunCommands(program, lazily);
  addAgentModeCommands(program, lazily);
  program
    .command("worktrees")
    .helpGroup("Worktrees:")
    .summary("prepare, list, show and remove worktrees")
    .description("Worktrees: prepare one to run tasks in, list and show them, remove them.")
    .usage("<command> [options]")
    .helpCommand("help [command]", "show help for a command")
    .addHelpText("after", worktreesExamples);
  addSecretsCommand(program, lazily);
  program
    .command("cache")
    .helpGroup("Worktrees:")
    .summary("warm environments: remove them")
    .description("Warm environments: what setups have made, kept for later jobs.")
    .usage("<command> [options]")
    .helpCommand("help [command]", "show help for a command");
  const run = (asked: Asked): Promise<void> =>
    lazily(own[asked.name] ?? (async () => (await import("./commands/ask.ts")).ask))(asked);
  addFlags(addOperationCommands(program, operations, run));
  const { cleanup_worktrees } = operations;
  const rm = { ...cleanup_worktrees, command: { name: "rm", args: ["paths"], group: "Worktrees" } };
  addFlags(addOperationCommands(program, { cleanup_worktrees: rm }, run));
  addContainerCommands(program, lazily);
  addServiceCommands(program, lazily);
  addCompletionCommand(program);
  hintAtHelp(program);
  return program;
};

/** Operations whose command does more than one call. */
const own: Record<string, () => Promise<(asked: Asked) => Promise<number>>> = {
  list_jobs: async () => (await import("./commands/jobs.ts")).jobs,
  prepare_worktree: async () => (await import("./commands/worktrees-prepare.ts")).worktreesPrepare,
  cleanup_worktrees: async () => (await import("./commands/worktrees-cleanup.ts")).worktreesCleanup,
};

/** What they take besides. */
const addFlags = ({ list_jobs: jobs, cleanup_worktrees: cleanup }: Record<string, Command>): void => {
  jobs
    ?.aliases(["ls", "ps"])
    .addOption(new Option("--active", "the same as --status active").conflicts(["status", "failed"]))
    .addOption(new Option("--failed", "the same as --status failed").conflicts("status"))
    .option("-q, --quiet", "print ids only, whole")
    .addOption(
      new Option("--watch", "show the list until interrupted, anew every 2 s").conflicts(["json", "quiet"]),
    );
  const since = jobs?.options.find(({ long }) => long === "--since");
  if (since !== undefined) since.description += "; or how long ago: 30m, 2h, 3d";
  cleanup?.addHelpText("after", cleanupEnd);
};

const helpEnd = `
Commands that need a running service call it at SERVICE_HOST (127.0.0.1) and
SERVICE_PORT (8200), with the key in SERVICE_API_KEY, or else the first of
SERVICE_API_KEYS.

Exit codes:
  0    done; with --wait or --follow: the job succeeded
  1    the job did not succeed, the service refused or failed, or it cannot be
       reached; drain: jobs are left
  2    svc does not understand the command, or the service calls its input
       invalid
  4    the job waits for an answer: svc answer
  130  interrupted while waiting; the job continues (143: by SIGTERM)

Start:
  svc serve
  svc run "Fix the failing date test" --repo acme/app --wait
`;

const worktreesExamples = `
In two steps, prepare and run:
  ID=$(svc worktrees prepare https://github.com/acme/app)
  svc run "Fix the failing date test" --worktree-id "$ID" --wait
`;

const cleanupEnd = `
A worktree stays when a job uses it or when it has unpushed work. With --force
svc cancels the jobs and saves the work under a ref of saved.git, which
it prints. Exit 1 when a named worktree stays.
`;
