import type { Command } from "commander";
import { transcriptOperations } from "../../contract/transcript.ts";
import { addCompletionCommand } from "../completion.ts";
import { addOperationCommands } from "../operation-commands.ts";
import { createProgramOf, examples, hintAtHelp, lazilyOf } from "../options.ts";

/** As `createProgram` of svc. */
export const createProgram = (finish: (code: number) => void): Command => {
  const lazily = lazilyOf(finish);
  const read = () => import("./reading.ts");
  const program = createProgramOf(
    "bridge",
    "Everything that coding agents said and did: search it, read it, serve it over MCP.",
    helpEnd,
  );
  program
    .command("serve")
    .summary("serve the tools over MCP")
    .description(
      "Serve the 16 tools: on standard input and output, or with BRIDGE_TRANSPORT=sse over HTTP at BRIDGE_PORT.",
    )
    .addHelpText(...examples("claude mcp add bridge -- bridge serve", "BRIDGE_TRANSPORT=sse bridge serve"))
    .action(lazily(async () => (await import("./serve.ts")).serve));
  const asked = addOperationCommands(
    program,
    transcriptOperations,
    lazily(async () => (await read()).ask),
  );
  asked["get_session"]?.alias("session");
  program
    .command("status")
    .description("show what is read, where it is stored, and how much there is")
    .option("--json", "print it as JSON")
    .addHelpText(...examples("bridge status"))
    .action(lazily(async () => (await read()).status));
  program
    .command("version")
    .description("print program name and version")
    .option("--json", "print them as JSON")
    .addHelpText(...examples("bridge version"))
    .action(lazily(async () => (await read()).version));
  addCompletionCommand(program);
  hintAtHelp(program);
  return program;
};

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
