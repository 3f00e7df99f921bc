import { Command } from "commander";
import { addCompletionCommand } from "../completion.ts";
import { fitHelp } from "../text/fit-help.ts";
import { examples, whole, type Lazily } from "../options.ts";

const json = ["--json", "print the tool's answer as JSON"] as const;
const project = ["-p, --project <text>", "only projects whose path contains this text"] as const;
const limit = (value: number) => ["-n, --limit <number>", "how many at most", whole(1, 500), value] as const;

/** As `createProgram` of svc. */
export const createProgram = (finish: (code: number) => void): Command => {
  const lazily: Lazily =
    (load) =>
    async (...args) =>
      finish(await (await load())(...args));
  const read = () => import("./reading.ts");
  const program = new Command("bridge")
    .description("Everything that coding agents said and did: search it, read it, serve it over MCP.")
    .usage("<command> [options]")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help for a command")
    .configureHelp({ showGlobalOptions: false, minWidthToWrap: 20 })
    .configureOutput({
      writeOut: (text) => void process.stdout.write(fitHelp(text, process.stdout.columns)),
      outputError: (text, write) => write(text.replace(/^error: /, "bridge: ")),
    })
    .showHelpAfterError("Try: bridge --help")
    .exitOverride()
    .addHelpText("after", helpEnd);
  program
    .command("serve")
    .summary("serve the tools over MCP")
    .description(
      "Serve the 16 tools: on standard input and output, or with BRIDGE_TRANSPORT=sse over HTTP at BRIDGE_PORT.",
    )
    .addHelpText(...examples("claude mcp add bridge -- bridge serve", "BRIDGE_TRANSPORT=sse bridge serve"))
    .action(lazily(async () => (await import("./serve.ts")).serve));
  program
    .command("sessions")
    .description("list sessions, the last updated first")
    .option(...project)
    .option(...limit(20))
    .option("--offset <number>", "how many to skip", whole(0, 1_000_000_000), 0)
    .option("--since-hours <hours>", "only those updated in the last hours", whole(0, 1_000_000), 0)
    .option(...json)
    .addHelpText(...examples("bridge sessions --project acme/app --since-hours 24"))
    .action(lazily(async () => (await read()).sessions));
  program
    .command("show")
    .alias("session")
    .description("show a session: what is known about it, and its last entries")
    .argument("<session>", "id of the session, or how it begins")
    .option("-n, --last <number>", "how many of the last entries; 0: all", whole(0, 10_000), 20)
    .option(...json)
    .addHelpText(...examples("bridge show 5a4d7a7e --last 50"))
    .action(lazily(async () => (await read()).show));
  program
    .command("search")
    .summary("search in everything that users, agents and tools said")
    .description(
      'Full-text search, the best match first, one for each session. Words must all occur; "a phrase", OR, -not and prefix* work.',
    )
    .argument("<query...>", "what to search for")
    .option(...project)
    .option(...limit(10))
    .option("--since <time>", "only entries from this time or date on")
    .option("--until <time>", "only entries up to this time or date")
    .option("--role <type>", "only entries of this type: user, assistant, summary or system")
    .option("--cursor <text>", "the next page: the cursor that the page before ends with")
    .option(...json)
    .addHelpText("after", searchEnd)
    .action(lazily(async () => (await read()).search));
  program
    .command("plans")
    .description("list plans that agents wrote, or show one")
    .argument("[codename]", "plan to show")
    .option(...project)
    .option(...limit(30))
    .option(...json)
    .addHelpText(...examples("bridge plans"))
    .action(lazily(async () => (await read()).plans));
  program
    .command("memory")
    .description("list memory files of the projects, or show one")
    .argument("[project]", "encoded name of a project, as the list shows it")
    .argument("[file]", "name of the file (default: MEMORY.md)")
    .option(...json)
    .addHelpText(...examples("bridge memory"))
    .action(lazily(async () => (await read()).memory));
  program
    .command("history")
    .description("search the prompts that users typed, the newest first")
    .argument("[query]", "text that the prompt contains")
    .option(...project)
    .option(...limit(20))
    .option(...json)
    .addHelpText(...examples('bridge history "date test"'))
    .action(lazily(async () => (await read()).history));
  program
    .command("collect")
    .description("read what is new in the transcript files")
    .option(...json)
    .addHelpText(...examples("bridge collect"))
    .action(lazily(async () => (await read()).collect));
  program
    .command("status")
    .description("show what is read, where it is stored, and how much there is")
    .option(...json)
    .addHelpText(...examples("bridge status"))
    .action(lazily(async () => (await read()).status));
  program
    .command("version")
    .description("print program name and version")
    .option("--json", "print them as JSON")
    .addHelpText(...examples("bridge version"))
    .action(lazily(async () => (await read()).version));
  addCompletionCommand(program);
  for (const command of program.commands) command.showHelpAfterError(`Try: bridge ${command.name()} --help`);
  return program;
};

const searchEnd = `
Examples:
  bridge search flaky date test
  bridge search '"time zone" OR UTC -docs' --project acme/app --since 2026-03-01
`;

const helpEnd = `
Reads the transcripts of Claude Code below ~/.claude, of the service's jobs and
chats below ~/.service (BRIDGE_AGENT_HOME), and of Codex below ~/.codex. Each
command first reads what is new. Secrets in answers
are masked (BRIDGE_REDACT).
Colours: off with NO_COLOR or without a terminal, on with FORCE_COLOR.

Exit codes:
  0    done
  1    not found, or it cannot be read
  2    bridge does not understand the command or the query
  130  interrupted (143: by SIGTERM)

Start:
  bridge sessions
  bridge search "date test"
  claude mcp add bridge -- bridge serve
`;
