import { z } from "zod";

const Content = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  content: z.union([z.string(), z.array(z.looseObject({ text: z.string().optional() }))]).optional(),
  is_error: z.boolean().optional(),
});

/** The part of a Messages API request that decides the answer. */
const MessagesRequest = z.looseObject({
  model: z.string(),
  stream: z.boolean().default(false),
  messages: z.array(z.looseObject({ role: z.string(), content: z.union([z.string(), z.array(Content)]) })),
  tools: z.array(z.looseObject({ name: z.string().optional() })).default([]),
});

export type ToolResult = { text: string; isError: boolean };

export type Conversation = {
  model: string;
  stream: boolean;
  /** Text of the user's last turn, without what the CLI adds on its own. */
  prompt: string;
  /** Results of the tools called in this turn, in order. */
  results: ToolResult[];
  /** Answers of the model in this turn so far. */
  answers: number;
  /** Names of the tools the caller offers. */
  tools: string[];
  /** A rough count by size, of the last message and of all before it. */
  tokens: { last: number; before: number };
  /** Headers of the request, lower-case. */
  headers: Record<string, string | string[] | undefined>;
};

export const readConversation = (body: unknown, headers: Conversation["headers"]): Conversation => {
  const { model, stream, messages, tools } = MessagesRequest.parse(body);
  const turns = messages.map(({ role, content }) => ({
    role,
    blocks: typeof content === "string" ? [{ type: "text", text: content }] : content,
  }));
  const begin = turns.findLastIndex(({ role, blocks }) => role === "user" && userText(blocks) !== "");
  const turn = turns.slice(Math.max(begin, 0));
  return {
    model,
    stream,
    prompt: userText(turn[0]?.blocks ?? []),
    results: turn.flatMap(({ blocks }) =>
      blocks.filter(({ type }) => type === "tool_result").map(toolResult),
    ),
    answers: turn.filter(({ role }) => role === "assistant").length,
    tools: tools.flatMap(({ name }) => name ?? []),
    tokens: { last: countTokens(messages.at(-1)), before: countTokens(body) - countTokens(messages.at(-1)) },
    headers,
  };
};

export const countTokens = (value: unknown): number => Math.ceil(JSON.stringify(value ?? "").length / 4);

type ContentBlock = z.output<typeof Content>;

/** Reminders and the requests to go on, of the CLI and of the service, do not begin a new turn. */
const ownWords =
  /^\s*(<system-reminder>|\[Your previous response|Output token limit hit|Continue from where you left off\.|Continue\.\s*$|\[SYSTEM NOTIFICATION|Your response above was (?:stopped|cut off)|\[structured-output-enforce\])/;

const userText = (blocks: ContentBlock[]): string =>
  blocks
    .flatMap(({ type, text = "" }) => (type === "text" && !ownWords.test(text) ? text.trim() : []))
    .join("\n");

const toolResult = ({ content = "", is_error: isError = false }: ContentBlock): ToolResult => {
  const joined = typeof content === "string" ? content : content.map(({ text = "" }) => text).join("\n");
  return { text: joined.replace(/<system-reminder>[^]*?<\/system-reminder>/g, ""), isError };
};
