import { Outcome } from "../../contract/job.ts";
import type { AgentStart, SaidMessage, TurnPart, AgentLaunch, AgentTurn } from "../agent.ts";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { toJson } from "../../lib/well-formed.ts";
import { askHooks } from "./replies.ts";

/**
 * Arguments of the CLI. The profile's come first: of a repeated option the last counts, and a profile must not switch
 * off the protection from a hostile repository's settings by accident.
 */
export const claudeArguments = ({
  cwd,
  launch,
  session,
  reports = false,
  hears = false,
  asks,
  also = [],
}: Pick<AgentStart, "also" | "cwd" | "launch" | "session" | "reports" | "hears" | "asks">): string[] => [
  "-p",
  ...(asks?.plan ? launch.args.filter((argument) => argument !== bypassFlag) : launch.args),
  ...askArguments(launch, asks),
  ...settingsArguments(launch),
  ...(launch.mcpConfigFile === null ? [] : ["--mcp-config", launch.mcpConfigFile]),
  // By the transcript's path: an id is found only from the directory in which the session ran.
  ...(session.resumeFrom === null ? ["--session-id", session.id] : ["--resume", session.resumeFrom]),
  // Restores the repository's CLAUDE.md, which `--setting-sources` drops with the rest.
  "--add-dir",
  cwd,
  ...also,
  // A profile may ask for a form of its own.
  ...(reports && !launch.args.some((argument) => argument.startsWith("--json-schema"))
    ? [`--json-schema=${JSON.stringify(reportSchema)}`]
    : []),
  // The sign that it has taken up what was said in the middle of a turn.
  ...(hears ? ["--replay-user-messages"] : []),
  ...protocol,
  ...isolation,
];

const settingsArguments = ({ worktree, settingsFile }: AgentLaunch): string[] => {
  if (worktree !== null) return ["--settings", worktree.settingsFile, "--worktree", worktree.name];
  return settingsFile === null ? [] : ["--settings", settingsFile];
};

const bypassFlag = "--dangerously-skip-permissions";

/** With the permission channel the CLI has tools that ask a person. */
const askArguments = ({ bypassPermissions }: AgentLaunch, asks: AgentStart["asks"]): string[] => {
  if (!mayAsk(asks)) return [];
  const plan = [
    "--permission-mode",
    "plan",
    ...(bypassPermissions ? [`--allow-${bypassFlag.slice(2)}`] : []),
  ];
  const unwanted = [
    ...(asks.question ? [] : ["AskUserQuestion"]),
    ...(asks.plan ? [] : ["EnterPlanMode", "ExitPlanMode"]),
  ];
  return [
    "--permission-prompt-tool",
    "stdio",
    ...(asks.plan ? plan : []),
    ...(unwanted.length > 0 ? [`--disallowedTools=${unwanted.join(",")}`] : []),
  ];
};

const mayAsk = (asks: AgentStart["asks"]): asks is NonNullable<typeof asks> =>
  asks !== undefined && (asks.question || asks.plan);

/** The permission mode in which the agent works once its plan is approved: the profile's, unless that is for plans only. */
export const approvedMode = ({ args, bypassPermissions }: AgentLaunch): string => {
  const mode = bypassPermissions ? "bypassPermissions" : (lastValue(args, "--permission-mode") ?? "default");
  return mode === "plan" ? "acceptEdits" : mode;
};

/** What the agent fills in at the end of its work. The CLI asks it once more if it does not. */
const reportSchema = {
  type: "object",
  properties: {
    outcome: {
      enum: Outcome.options,
      description:
        "changed: you changed files. no_change: nothing had to be changed. answered: the task was a question, and you have answered it. question: you cannot go on without an answer from the user",
    },
    summary: { type: "string", description: "What you did, in plain words, at most 100 words" },
    question: { type: "string", description: "With outcome question: what you need to know" },
  },
  required: ["outcome", "summary"],
  additionalProperties: false,
};

const protocol =
  "--input-format stream-json --output-format stream-json --verbose --include-partial-messages".split(" ");

/**
 * Without these, a cloned repository's settings and MCP servers could run commands and redirect the model credentials.
 */
const isolation = ["--setting-sources", "user", "--strict-mcp-config"];

/** A user message for the CLI's standard input, which has no length limit and no special leading dash. */
export const userLine = (
  parts: readonly TurnPart[],
  more: { uuid?: string; priority?: string } = {},
): string => {
  const message = { role: "user", content: parts.map(contentBlock) };
  return `${toJson({ type: "user", message, parent_tool_use_id: null, ...more })}\n`;
};

/** What is said while a turn runs. The CLI's words for `when` are ours. */
export const messageLine = ({ id: uuid, text, when: priority }: SaidMessage): string =>
  userLine([{ type: "text", text: noCommand(text) }], { uuid, priority });

/** A newer CLI holds a message back until the turn ends if it begins with a slash after white space; this is none. */
const noCommand = (text: string): string => (/^\s*\//.test(text) ? `\u200b${text}` : text);

const contentBlock = (part: TurnPart): object => {
  if (part.type !== "text") {
    const { mediaType: media_type, base64: data, ...block } = part;
    return { ...block, source: { type: "base64", media_type, data } };
  }
  // The CLI would take a leading slash for one of its own commands, which never reaches the model.
  return { type: "text", text: part.text.startsWith("/") ? `\n${part.text}` : part.text };
};

export type TurnInput = {
  turn: Pick<AgentTurn, "content" | "appendSystemPrompt" | "effort">;
  /** Only before its first message does the CLI accept a system prompt. */
  first: boolean;
  resumes: boolean;
  /** What the arguments append to the system prompt. */
  appended: string | null;
  /** Last sent to the CLI; null: none, then its arguments count. */
  effort: AgentTurn["effort"];
  asks: AgentStart["asks"];
};

/** All lines of one turn, written at once: the CLI reads them in order, so nothing waits for its answers. */
export const turnInput = (input: TurnInput): string => {
  const { turn, first, effort } = input;
  const lines: string[] = [];
  const start = first ? initialRequest(input) : {};
  if (Object.keys(start).length > 0) lines.push(controlLine({ subtype: "initialize", ...start }));
  if (turn.effort !== null && turn.effort !== effort)
    lines.push(controlLine({ subtype: "apply_flag_settings", settings: { effortLevel: turn.effort } }));
  if (turn.content.length > 0) lines.push(userLine(turn.content));
  return lines.join("");
};

/** Counts once, before the first message. Empty: nothing is wanted. */
const initialRequest = ({ turn, appended, asks, resumes }: TurnInput): Record<string, unknown> => ({
  // A newer CLI would send the system prompt that the session began with; an older one ignores this.
  ...(resumes && { systemPromptSnapshot: false }),
  ...(turn.appendSystemPrompt !== null && {
    // It replaces what the arguments append, so it must include that.
    appendSystemPrompt: [appended, turn.appendSystemPrompt].filter((text) => text !== null).join("\n\n"),
  }),
  ...(mayAsk(asks) && { hooks: askHooks }),
});

/** Asks the CLI to end the turn; it then sends an error result and can run the next one. */
export const interruptLine = (): string => controlLine({ subtype: "interrupt" });

/** Takes a message out of the CLI's queue, which then says whether it was there. */
export const cancelLine = (requestId: string, message_uuid: string): string =>
  controlLine({ subtype: "cancel_async_message", message_uuid }, requestId);

/** What the arguments append to the system prompt; null: nothing. The CLI reports an unreadable file itself. */
export const appendedByArguments = async ({ args }: AgentLaunch): Promise<string | null> => {
  const text = lastValue(args, "--append-system-prompt");
  if (text !== null) return text;
  const file = lastValue(args, "--append-system-prompt-file");
  return file === null ? null : await readFile(file, "utf8").catch(() => null);
};

/** `--name value` or `--name=value`; of a repeated option the last counts. */
const lastValue = (args: readonly string[], name: string): string | null => {
  const at = args.findLastIndex((argument) => argument === name || argument.startsWith(`${name}=`));
  const argument = args[at];
  if (argument === undefined) return null;
  return argument === name ? (args[at + 1] ?? null) : argument.slice(name.length + 1);
};

const controlLine = (request: Record<string, unknown>, request_id: string = randomUUID()): string =>
  `${JSON.stringify({ type: "control_request", request_id, request })}\n`;
