import { Command, Option } from "commander";
import type { ExitCode } from "./failure.ts";
import { baseRef, json, kindList, whole, type Lazily } from "./options.ts";
import { addServiceCommands } from "./service-commands.ts";
import { jobStatuses } from "./text/status.ts";
import { addWorktreeCommands } from "./worktree-commands.ts";

/**
 * The commands with their options. A command's code is imported when it is called: imports make a start slow.
 * @param finish called with the exit code of the command that ran
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
  addTaskCommands(program, lazily);
  addChatCommand(program, lazily);
  addWorktreeCommands(program, lazily);
  addServiceCommands(program, lazily);
  hintAtHelp(program, "svc");
  return program;
};

const addTaskCommands = (program: Command, lazily: Lazily): void => {
  program.commandsGroup("Tasks:");
  program
    .command("run")
    .summary("submit a task")
    .description(
      "Submit a task to the service. Prints the job's id at once; with --wait also what happens until the job has ended.",
    )
    .argument("<task>", "what the agent is to do, in plain words; - reads it from standard input")
    .option("-r, --repo <url>", "git repository: an https or ssh URL, or a path")
    .option(
      "-p, --profile <name>",
      "profile to run with; auto: the match rules of your profiles choose",
      "auto",
    )
    .option(...baseRef)
    .option("-w, --wait", "follow the job until it has ended; exit 0 only if it succeeded")
    .option("--worktree-id <id>", "worktree to run in, with its repository: leave out --repo")
    .option("--session-id <id>", "agent session to resume")
    .option("--file-path <path>", "MCP configuration on the shared file system to add to the job's")
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
    .option("-n, --limit <number>", "list at most this many, 1 to 1000", whole(1, 1000), 20)
    .addOption(
      new Option("-s, --status <status>", "list only jobs of this status").choices([...jobStatuses, "all"]),
    )
    .option("--session <id>", "list only jobs of this agent session")
    .option("--cursor <cursor>", "continue where the previous list ended")
    .option(...json)
    .action(lazily(async () => (await import("./commands/lists.ts")).jobs));
  program
    .command("job")
    .summary("show a job and where its time went")
    .description("Show a job: status, branch, pull request, cost, output, and where the time went.")
    .argument("<job_id>", "id of the job")
    .option("--events", "follow its events until it has ended; exit 0 only if it succeeded")
    .option("--json", "print the service's answer as JSON; with --events one event a line")
    .action(lazily(async () => (await import("./commands/lists.ts")).job));
  program
    .command("cancel")
    .summary("cancel a queued or running job")
    .description("Cancel a queued or running job and end its agent. A job that has ended stays as it is.")
    .argument("<job_id>", "id of the job")
    .option(...json)
    .action(lazily(async () => (await import("./commands/lists.ts")).cancel));
  program
    .command("profiles")
    .description("list the profiles a task can run with; a broken one shows its fault")
    .option(...json)
    .action(lazily(async () => (await import("./commands/lists.ts")).profiles));
};

const addChatCommand = (program: Command, lazily: Lazily): void => {
  program.commandsGroup("Agent mode:");
  program
    .command("chat")
    .summary("talk with the agent, live")
    .description(
      "Talk with the agent of a service that runs with AGENT_MODE=true. With a message: one question, one answer. On a terminal without one: a conversation.",
    )
    .argument("[message]", "what to say; - reads it from standard input")
    .option("-c, --conversation <id>", "conversation to continue or to start (default: a new one)")
    .option("-m, --model <id>", "agent or model to talk to (default: the loaded agent)")
    .option("--timeout <seconds>", "end an answer after this time, 1 to 604800", whole(1, 604_800))
    .option("--user <id>", "who is talking: conversations of different users are kept apart")
    .option("--hide <kinds>", "leave out some of: thinking,tools,narration,final", kindList)
    .option("--full", "show tool results whole instead of their first lines")
    .option("--no-live", "print text in whole blocks instead of word by word")
    .option("--json", "print the answer's chunks as they come, one JSON object a line")
    .addHelpText("after", chatEnd)
    .action(lazily(async () => (await import("./chat/chat.ts")).chat));
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

const helpEnd = `
Commands other than serve, config, hooks, init-shared-fs and version call the
service at SERVICE_HOST (127.0.0.1) and SERVICE_PORT (8200), with the key in
SERVICE_API_KEY, or else the first of SERVICE_API_KEYS. drain calls the
key-value store at KV_URL.
Colours: off with NO_COLOR or without a terminal, on with FORCE_COLOR.

Exit codes:
  0    done; with --wait or --events: the job succeeded
  1    the job did not succeed, the service refused or failed, or it cannot be
       reached; drain: jobs are left
  2    svc does not understand the command, or the service calls its input
       invalid
  130  interrupted while waiting; the job continues (143: by SIGTERM)

Start:
  svc serve
  svc run "Fix the failing date test" --repo https://github.com/acme/app --wait
`;

const runExamples = `
Examples:
  svc run "Fix the failing date test" --repo https://github.com/acme/app --wait
  svc run "Review the error handling" -r . -p review -w
  svc run - -r git@github.com:acme/app.git < task.md
  svc job "$(svc run "Update the docs" -r https://github.com/acme/app)" --events
  svc run "Now add a test" --worktree-id "$ID"

Put two dashes before a task that begins with a dash:
  svc run -r . -- "-O3 breaks the build: find out why"
`;

const chatEnd = `
Examples:
  svc chat
  svc chat "What does this service do, and where are its tests?"
  svc chat -c "$ID" "Now add the missing one"
  git diff | svc chat --hide thinking,tools,narration > review.md
  svc chat "Count files" --json | jq -rj '.choices[0].delta.content // empty'

svc prints the conversation's id; with it you can continue later. At the prompt,
/help lists the commands.
Words such as /show-thinking or /hide-tools in a message change what the agent
shows to everyone who talks to it; /stream-status shows what is set. --hide is
for this command only.

Exit: 0 the answer is complete, 1 there is none or not all of it, 2 not
understood, 130 interrupted (the turn is stopped).
`;
