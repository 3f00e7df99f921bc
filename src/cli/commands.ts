import { Argument, Command } from "commander";
import { nearest } from "../lib/nearest.ts";
import { addChangeCommands } from "./change-commands.ts";
import { addCompletionCommand } from "./completion.ts";
import { addContainerCommands } from "./container-commands.ts";
import { addJobsCommand } from "./find-commands.ts";
import { examples, jobId, json, kindList, whole, type Lazily } from "./options.ts";
import { addServiceCommands } from "./service-commands.ts";
import { fitHelp } from "./text/fit-help.ts";
import { sanitise } from "../view/sanitise.ts";
import { addRunCommands } from "./task-commands.ts";
import { addWorktreeCommands } from "./worktree-commands.ts";

/**
 * The commands with their options. A command's code is imported when it is called: imports make a start slow.
 * @param finish called with the exit code of the command that ran
 */
export const createProgram = (finish: (code: number) => void): Command => {
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
    .configureHelp({ showGlobalOptions: false, minWidthToWrap: 20 })
    .configureOutput({
      writeOut: (text) => void process.stdout.write(fitHelp(text, process.stdout.columns)),
      outputError: (text, write) => write(sanitise(usageText(text))),
    })
    .showHelpAfterError("Try: svc --help")
    .exitOverride()
    .addHelpText("after", helpEnd);
  addTaskCommands(program, lazily);
  addChangeCommands(program, lazily);
  addChatCommand(program, lazily);
  addWorktreeCommands(program, lazily);
  addContainerCommands(program, lazily);
  addServiceCommands(program, lazily);
  addCompletionCommand(program);
  hintAtHelp(program, "svc");
  return program;
};

const addTaskCommands = (program: Command, lazily: Lazily): void => {
  program.commandsGroup("Tasks:");
  addRunCommands(program, lazily);
  addJobsCommand(program, lazily);
  program
    .command("job")
    .summary("show a job and where its time went")
    .description("Show a job: status, branch, pull request, cost, output, and where the time went.")
    .argument(...jobId)
    .option("--events", "follow its events until it has ended; exit 0 only if it succeeded")
    .option("--json", "print the service's answer as JSON; with --events one event a line")
    .addHelpText(
      ...examples("svc job latest", "svc job 6f1c --json | jq .job.output", "svc job 6f1c --events"),
    )
    .action(lazily(async () => (await import("./commands/lists.ts")).job));
  program
    .command("cancel")
    .summary("cancel a queued or running job")
    .description("Cancel a queued or running job and end its agent. A job that has ended stays as it is.")
    .argument(...jobId)
    .option(...json)
    .addHelpText(...examples("svc cancel 6f1c"))
    .action(lazily(async () => (await import("./commands/lists.ts")).cancel));
  program
    .command("profiles")
    .description("list the profiles a task can run with; a broken one shows its fault")
    .option(...json)
    .addHelpText(...examples("svc profiles"))
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
  program
    .command("visibility")
    .summary("show or set what the agent shows")
    .description(
      "Show which parts of its work the agent shows, or set them first: for everyone who talks to it, from their next answer on. text=off hides narration and final answer.",
    )
    .addArgument(
      new Argument("[changes...]", "what to show or hide").choices(
        ["thinking", "tools", "text", "narration", "final"].flatMap((kind) => [`${kind}=on`, `${kind}=off`]),
      ),
    )
    .option(...json)
    .addHelpText(...examples("svc visibility", "svc visibility thinking=off tools=on"))
    .action(lazily(async () => (await import("./commands/visibility.ts")).visibility));
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
  return text.replace(/^error: /, "svc: ").replace(suggested, ifNear) + hints.join("");
};

/** Commander suggests names that have little to do with what was typed. */
const suggested = /(?<='-*([^'-][^']*)')\n\(Did you mean (?:one of )?([^?]*)\?\)/;
const ifNear = (text: string, typed: string, names: string): string =>
  nearest(typed, names.replaceAll(/(?<![^ ])-+/g, "").split(", ")) === undefined ? "" : text;

const helpEnd = `
Commands that need a running service call it at SERVICE_HOST (127.0.0.1) and
SERVICE_PORT (8200), with the key in SERVICE_API_KEY, or else the first of
SERVICE_API_KEYS. drain calls the key-value store at KV_URL.

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
  svc run "Fix the failing date test" --repo acme/app --wait
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
