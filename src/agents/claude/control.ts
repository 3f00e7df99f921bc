import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { AgentLaunch, AgentTurn } from "../agent.ts";
import { userLine } from "./arguments.ts";

/** What the CLI was last told; null: nothing, then its arguments count. */
export type SentOptions = { model: string | null; effort: AgentTurn["effort"] };

type Saying = Pick<AgentTurn, "content" | "appendSystemPrompt" | "model" | "effort">;

export type TurnInput = {
  turn: Saying;
  /** Only before its first message does the CLI take a system prompt. */
  first: boolean;
  /** What the arguments append to the system prompt. */
  appended: string | null;
  told: SentOptions;
};

/**
 * All that one turn needs, to be written at once: the CLI takes the lines in their order, so nobody waits for the answers.
 * A model that it has already is not named again, since each naming leaves a message in the conversation.
 */
export const turnInput = ({
  turn,
  first,
  appended,
  told,
}: TurnInput): { input: string; told: SentOptions } => {
  const lines: string[] = [];
  if (first && turn.appendSystemPrompt !== null) {
    // Takes the place of what the arguments append, which therefore comes along.
    const appendSystemPrompt = [appended, turn.appendSystemPrompt]
      .filter((text) => text !== null)
      .join("\n\n");
    lines.push(controlLine({ subtype: "initialize", appendSystemPrompt }));
  }
  const next = { model: turn.model ?? told.model, effort: turn.effort ?? told.effort };
  if (next.model !== told.model) lines.push(controlLine({ subtype: "set_model", model: next.model }));
  if (next.effort !== told.effort) {
    lines.push(controlLine({ subtype: "apply_flag_settings", settings: { effortLevel: next.effort } }));
  }
  lines.push(userLine(turn.content));
  return { input: lines.join(""), told: next };
};

/** Asks the CLI to end the turn; it then gives an error result and takes the next one. */
export const interruptLine = (): string => controlLine({ subtype: "interrupt" });

/** What the arguments append to the system prompt; null: nothing. A file that cannot be read is the CLI's to complain of. */
export const appendedByArguments = async ({ args }: AgentLaunch): Promise<string | null> => {
  const text = lastValue(args, "--append-system-prompt");
  if (text !== null) return text;
  const file = lastValue(args, "--append-system-prompt-file");
  return file === null ? null : await readFile(file, "utf8").catch(() => null);
};

/** `--name value` or `--name=value`; of an option given twice the last counts. */
const lastValue = (args: readonly string[], name: string): string | null => {
  const at = args.findLastIndex((argument) => argument === name || argument.startsWith(`${name}=`));
  const argument = args[at];
  if (argument === undefined) return null;
  return argument === name ? (args[at + 1] ?? null) : argument.slice(name.length + 1);
};

const controlLine = (request: Record<string, unknown>): string =>
  `${JSON.stringify({ type: "control_request", request_id: randomUUID(), request })}\n`;
