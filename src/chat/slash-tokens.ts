import type { TurnPart } from "../agents/agent.ts";
import { ServiceError } from "../contract/errors.ts";
import { everythingVisible, type Visibility } from "../contract/visibility.ts";
import type { ChatMessage } from "./chat.ts";

const effects = {
  "/show-thinking": { show_thinking: true },
  "/hide-thinking": { show_thinking: false },
  "/show-tools": { show_tools: true },
  "/hide-tools": { show_tools: false },
  "/show-narration": { show_narration: true },
  "/hide-narration": { show_narration: false },
  "/show-final": { show_final: true },
  "/hide-final": { show_final: false },
  "/show-all": everythingVisible,
  "/hide-all": { ...everythingVisible, show_thinking: false, show_tools: false, show_narration: false },
  "/stream-status": {},
} as const satisfies Record<string, Partial<Visibility>>;

export type SlashToken = keyof typeof effects;

export const slashTokens = Object.keys(effects) as SlashToken[];

export const applySlashTokens = (visibility: Visibility, tokens: readonly SlashToken[]): Visibility =>
  tokens.reduce((before, token) => ({ ...before, ...effects[token] }), visibility);

/**
 * Removes the known tokens from a text: those that stand alone between whitespace, or at an end of the text. One space
 * goes with each: the one after it, else the one before it. Every other byte stays.
 */
export const readSlashTokens = (
  text: string,
  found = { tokens: 0 },
): { text: string; tokens: SlashToken[] } => {
  const tokens: SlashToken[] = [];
  const kept: string[] = [];
  let from = 0;
  for (const match of text.matchAll(standingAlone)) {
    found.tokens += 1;
    if (found.tokens > maxTokens) throw tooMany();
    tokens.push(match[0] as SlashToken);
    if (match.index > from) kept.push(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (text[from] === " ") from += 1;
    else if (kept.at(-1)?.endsWith(" ") === true) kept.push(kept.pop()?.slice(0, -1) ?? "");
  }
  return tokens.length === 0 ? { text, tokens } : { text: kept.join("") + text.slice(from), tokens };
};

/** In all messages of a request. */
const maxTokens = 10_000;

const tooMany = (): ServiceError =>
  new ServiceError(
    "invalid_request",
    `The messages have more than ${maxTokens.toLocaleString("en")} slash tokens; send fewer`,
  );

export type ReadMessages = {
  /**
   * The messages without tokens. A text part of tokens alone is omitted. So is an earlier message of tokens alone,
   * with its answer: the agent never saw either.
   */
  messages: ChatMessage[];
  /** Tokens of the last user message, in order. */
  tokens: SlashToken[];
  /** The last user message contains tokens and otherwise only whitespace: no agent is needed. */
  isOnlyTokens: boolean;
};

/**
 * Removes the tokens from all user messages. Only those of the last one count: the others were applied before.
 * @throws ServiceError invalid_request when there are too many
 */
export const readMessageTokens = (messages: readonly ChatMessage[]): ReadMessages => {
  const last = messages.findLastIndex(({ role }) => role === "user");
  let tokens: SlashToken[] = [];
  const rest: ChatMessage[] = [];
  const found = { tokens: 0 };
  let isAnswerToTokens = false;
  for (const [index, message] of messages.entries()) {
    if (message.role !== "user") {
      if (!isAnswerToTokens) rest.push(message);
      isAnswerToTokens = false;
      continue;
    }
    const read = readPartTokens(message.content, found);
    if (index === last) tokens = read.tokens;
    isAnswerToTokens = index !== last && read.tokens.length > 0 && isBlank(read.content);
    if (!isAnswerToTokens) rest.push({ role: "user", content: read.content });
  }
  const left = rest.findLast(({ role }) => role === "user")?.content ?? [];
  const isOnlyTokens = tokens.length > 0 && isBlank(left);
  return { messages: rest, tokens, isOnlyTokens };
};

const isBlank = (content: readonly TurnPart[]): boolean =>
  content.every((part) => part.type === "text" && part.text.trim() === "");

/** Longer tokens need no precedence: only whitespace may follow a token. */
const standingAlone = new RegExp(`(?<!\\S)(?:${slashTokens.join("|")})(?!\\S)`, "g");

const readPartTokens = (
  parts: readonly TurnPart[],
  found: { tokens: number },
): { content: TurnPart[]; tokens: SlashToken[] } => {
  const all: SlashToken[] = [];
  const content = parts.flatMap((part): TurnPart[] => {
    if (part.type !== "text") return [part];
    const { text, tokens } = readSlashTokens(part.text, found);
    all.push(...tokens);
    return tokens.length > 0 && text === "" ? [] : [{ type: "text", text }];
  });
  return { content, tokens: all };
};
