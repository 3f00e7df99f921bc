import { Command, Option } from "commander";
import { kindList } from "./chat/kinds.ts";
import type { ExitCode } from "./exit-code.ts";
import { chatEnd, helpEnd, runExamples, serveEnd } from "./help.ts";
import { addDrainCommand, addInitSharedFsCommand } from "./operator-commands.ts";
import { whole } from "./option-values.ts";
import { statuses } from "./text/status.ts";
import { addDiskCommand, addWorktreeCommands } from "./worktree-commands.ts";

type Action<Args extends unknown[]> = (...args: Args) => Promise<ExitCode>;

/** Makes an action of a command out of the import of what it does. */
export type Lazily = <Args extends unknown[]>(
  load: () => Promise<Action<Args>>,
) => (...args: Args) => Promise<void>;

/**
 * The commands with their options. What a command does is imported when it is called: imports are what a start costs.
 * @param finish told the exit code of the command that ran
 */
export const createProgram = (finish: (code: ExitCode) => void): Command => {
  const lazily: Lazily =
    (load) =>
    async (...args) =>
      finish(await (await load())(...args));

  const program = new Command("svc")
    .description(
      "Runs a coding agent on git repositories: submit a task, get back a branch or a pull request.",
    )
    .usage("<command> [options]")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help for a command")
    .configureHelp({ showGlobalOptions: false })
    .configureOutput({ outputError: (text, write) => write(usageText(text)) })
    .showHelpAfterError("Try: svc --help")
    .exitOverride()
    .addHelpText("after", helpEnd);

  program.commandsGroup("Tasks:");
  program
    .command("run")
    .summary("submit a task")
    .description(
      "Submit a task to the service. Prints the job's id at once; with --wait also what happens, until the job has ended.",
    )
    .argument("<task>", "what the agent is to do, in plain words; - reads it from standard input")
    .option("-r, --repo <url>", "git repository: an https or ssh URL, or a path")
    .option("-p, --profile <name>", "profile to run with; auto: chosen by your profiles' match rules", "auto")
    .option(
      "--base-ref <ref>",
      "branch or tag to base the work on (default: main, else the repository's default branch)",
    )
    .option("-w, --wait", "follow the job until it has ended; exit 0 only if it succeeded")
    .option(
      "--worktree-id <id>",
      "worktree to run in; its repository is taken, so that --repo can be left out",
    )
    .option("--session-id <id>", "agent session to go on with")
    .option("--file-path <path>", "MCP configuration on the shared file system, added to the job's")
    .option("--create-repo", "create the repository on the git host if it is missing")
    .option("--public", "create it public; private without this")
    .option("--idempotency-key <key>", "submit once: the same key and task give the same job")
    .option("--json", "print the service's answer as JSON; with --wait only the final one")
    .addHelpText("after", runExamples)
    .action(lazily(async () => (await import("./commands/run.ts")).run));
  program
    .command("jobs")
    .summary("list jobs, newest first")
    .description("List jobs, newest first; below them how many wait, and what each instance runs.")
    .option("-n, --limit <number>", "how many at most, 1 to 1000", whole(1, 1000), 20)
    .addOption(
      new Option("-s, --status <status>", "only jobs of this status; all: of any").choices([
        ...statuses,
        "all",
      ]),
    )
    .option("--cursor <cursor>", "go on where the list before this ended")
    .option("--json", "print the service's answer as JSON")
    .action(lazily(async () => (await import("./commands/jobs.ts")).jobs));
  program
    .command("job")
    .summary("show a job and where its time went")
    .description("Show a job: status, branch, pull request, cost, output, and where the time went.")
    .argument("<job_id>", "id of the job")
    .option("--events", "follow its events until it has ended; exit 0 only if it succeeded")
    .option("--json", "print the service's answer as JSON; with --events one event a line")
    .action(lazily(async () => (await import("./commands/job.ts")).job));
  program
    .command("cancel")
    .summary("cancel a queued or running job")
    .description("Cancel a queued or running job and end its agent. A job that has ended stays as it is.")
    .argument("<job_id>", "id of the job")
    .option("--json", "print the service's answer as JSON")
    .action(lazily(async () => (await import("./commands/cancel.ts")).cancel));
  program
    .command("profiles")
    .summary("list the profiles a task can run with")
    .description("List the profiles a task can run with; one that cannot be used says why.")
    .option("--json", "print the service's answer as JSON")
    .action(lazily(async () => (await import("./commands/profiles.ts")).profiles));

  program.commandsGroup("Agent mode:");
  program
    .command("chat")
    .summary("talk with the agent, live")
    .description(
      "Talk with the agent of a service that runs with AGENT_MODE=true. With a message: one question, one answer. On a terminal without one: a conversation.",
    )
    .argument("[message]", "what to say; - reads it from standard input")
    .option(
      "-c, --conversation <id>",
      "conversation to go on with, or to begin by this id (default: a new one)",
    )
    .option("-m, --model <id>", "agent or model to talk to (default: the loaded agent)")
    .option("--timeout <seconds>", "how long an answer may take, 1 to 604800", whole(1, 604_800))
    .option("--user <id>", "who is talking: conversations of different users are kept apart")
    .option("--hide <kinds>", "what to leave out here: thinking,tools,narration,final", kindList)
    .option("--full", "tool results whole instead of their first lines")
    .option("--no-live", "text in whole blocks instead of word by word")
    .option("--json", "print the answer's chunks as they come, one JSON object a line")
    .addHelpText("after", chatEnd)
    .action(lazily(async () => (await import("./commands/chat.ts")).chat));

  program.commandsGroup("Worktrees:");
  addWorktreeCommands(program, lazily);
  addDiskCommand(program, lazily);

  program.commandsGroup("Service:");
  program
    .command("serve")
    .summary("run the service")
    .description("Run the service until it is told to stop.")
    .option(
      "--port <port>",
      "port to listen on; 0: a free one (default: SERVICE_PORT, else 8200)",
      whole(0, 65_535),
    )
    .option("--host <address>", "address to listen on (default: SERVICE_HOST, else 127.0.0.1)")
    .addHelpText("after", serveEnd)
    .action(lazily(async () => (await import("./commands/serve.ts")).serve));
  addDrainCommand(program, lazily);
  program
    .command("status")
    .summary("tell whether the service is up")
    .description("Tell whether the service is up; exit 1 when it is not.")
    .option("--json", "print the service's answer as JSON")
    .action(lazily(async () => (await import("./commands/status.ts")).status));
  program
    .command("instances")
    .summary("list the instances and what they run")
    .description("List the instances that share the queue, with what each runs, and how many jobs wait.")
    .option("--json", "print the service's answer as JSON")
    .action(lazily(async () => (await import("./commands/instances.ts")).instances));
  program
    .command("config")
    .summary("show the settings and their sources")
    .description(
      "Show the settings that svc serve would run with, and where each comes from. Secrets are masked.",
    )
    .option("--json", "print them as JSON")
    .action(lazily(async () => (await import("./commands/config.ts")).config));
  addInitSharedFsCommand(program, lazily);
  program
    .command("version")
    .summary("print program name and version")
    .description("Print program name and version.")
    .option("--json", "print them as JSON")
    .action(lazily(async () => (await import("./commands/version.ts")).version));
  hintAtHelp(program, "svc");
  return program;
};

const hintAtHelp = (program: Command, path: string): void => {
  for (const command of program.commands) {
    command.showHelpAfterError(`Try: ${path} ${command.name()} --help`);
    hintAtHelp(command, `${path} ${command.name()}`);
  }
};

const usageText = (text: string): string => {
  const hints = [
    /too many arguments for 'run'/.test(text) ? "Put the task in quotes.\n" : "",
    /unknown option '[^']* /.test(text) ? "A task that begins with a dash goes after --\n" : "",
  ];
  return text.replace(/^error: /, "svc: ") + hints.join("");
};
