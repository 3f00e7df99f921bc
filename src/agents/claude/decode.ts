import * as wire from "./wire.ts";
import type { z } from "zod";
import type { AgentEvent } from "../../contract/event.ts";
import type { Report, Usage } from "../../contract/job.ts";
import { parseJson } from "../../lib/well-formed.ts";
import type { ModelTokens } from "../agent.ts";
import { createBlocks, type Blocks } from "./blocks.ts";

type Decoded = {
  events: AgentEvent[];
  /** The line is not in the protocol: it belongs to the tail of the output. */
  garbage: boolean;
  /** The line, if the CLI requests or answers something by it, or has taken up what was said. */
  request?: unknown;
};

/** Facts of the run that are not events. */
const noFacts = () => ({
  /** The kind of the last error message that the CLI sent as the model's, e.g. `authentication_failed`. */
  apiError: null as string | null,
  /** The model refused the task. */
  refused: false,
  /** The model or a tool did something since the last result. */
  workedSinceResult: false,
  /** The agent has begun a turn, and its result has not come yet. */
  turnOpen: false,
  /** From the last message that names it, at the beginning of each turn. */
  sessionId: null as string | null,
  model: null as string | null,
  /** In the model's message under way. */
  tokens: noTokens,
  /** In the last result. */
  report: null as Report | null,
  /** The agent's last message. `isOpen`: its end has not come; `calls`: how many tools it calls, so far. */
  message: { id: null as string | null, isOpen: false, calls: 0 },
  /** Tokens of the whole process by model, from the last result that has them. */
  models: null as ModelTokens | null,
  /** The last result came because a call was deferred. */
  deferred: false,
});
export type DecoderFacts = ReturnType<typeof noFacts>;

type State = {
  blocks: Blocks;
  facts: DecoderFacts;
  started: boolean;
};

const noTokens: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
};

/** Decodes one run's stream-json lines. Unknown lines and kinds are ignored: new versions add some. */
export const createDecoder = () => {
  const facts = noFacts();
  const state: State = { blocks: createBlocks(), facts, started: false };
  return {
    facts,
    /** Resets the facts of the turn before. */
    nextTurn: (): void => {
      facts.apiError = null;
      facts.refused = false;
      facts.tokens = noTokens;
      facts.report = null;
      facts.deferred = false;
    },
    decode: (line: string): Decoded => {
      const value = parseObject(line);
      if (value === null) return { events: [], garbage: line.trim() !== "" };
      const type = typeof value["type"] === "string" ? value["type"] : "";
      if (type.startsWith("control_") || value["isReplay"] === true)
        return { events: [], garbage: false, request: value };
      return { events: readers.get(type)?.(value, state) ?? [], garbage: false };
    },
  };
};

type Reader = (value: Record<string, unknown>, state: State) => AgentEvent[];

const readLine =
  <Schema extends z.ZodType>(
    schema: Schema,
    read: (line: z.output<Schema>, state: State) => AgentEvent[],
  ): Reader =>
  (value, state) => {
    const line = schema.safeParse(value);
    return line.success ? read(line.data, state) : [];
  };

const started = readLine(wire.InitLine, (line, state) => {
  const { session_id, model = null, claude_code_version: version = null } = line;
  Object.assign(state.facts, { turnOpen: true, sessionId: session_id, model });
  if (state.started) return [];
  state.started = true;
  return [{ type: "started", session_id, model, agent_version: version }];
});

const retry = readLine(wire.RetryLine, (line) => [
  {
    type: "retry",
    retry: line.attempt,
    max_retries: line.max_retries,
    delay_ms: line.retry_delay_ms,
    status: line.error_status ?? null,
    error: line.error ?? "unknown",
  },
]);

const rateLimit = readLine(wire.RateLimitLine, ({ rate_limit_info: info }) => [
  { type: "rate_limit", status: info.status, resets_at: instant(info.resetsAt ?? null) },
]);

const stream: Reader = ({ event, parent_tool_use_id: parent }, state) => {
  const { blocks, facts } = state;
  if (!wire.isStreamEvent(event)) return [];
  const isSubagent = typeof parent === "string" && parent !== "";
  // The end of a message may come after the result, and is no more work.
  if (event.type === "message_delta" || event.type === "message_stop")
    return isSubagent ? [] : messageEnd(event, state);
  facts.workedSinceResult = true;
  facts.turnOpen = true;
  // A subagent's text is not the answer.
  if (isSubagent) return [];
  switch (event.type) {
    case "message_start":
      facts.tokens = wire.updateTokens(noTokens, event.message);
      facts.message = { id: wire.idOf(event.message), isOpen: true, calls: 0 };
      return blocks.begin();
    case "content_block_start":
      return blockStart(event, blocks);
    case "content_block_delta":
      return blockDelta(event, blocks);
    case "content_block_stop":
      return blocks.stop(event.index);
  }
};

/** A delta's counts are those of the whole message so far. */
const messageEnd = (event: wire.MessageEnd, { facts }: State): AgentEvent[] => {
  const usage = wire.updateTokens(facts.tokens, event);
  facts.tokens = event.type === "message_stop" ? noTokens : usage;
  if (event.type === "message_stop") facts.message.isOpen = false;
  return event.type === "message_stop" ? [{ type: "usage", usage }] : [];
};

type BlockDelta = Extract<wire.StreamEvent, { type: "content_block_delta" }>;

const blockDelta = ({ index, delta: { type, text, thinking } }: BlockDelta, blocks: Blocks): AgentEvent[] => {
  if (type === "text_delta" && typeof text === "string") return blocks.delta(index, "text", text);
  if (type === "thinking_delta" && typeof thinking === "string")
    return blocks.delta(index, "thinking", thinking);
  return [];
};

type BlockStart = Extract<wire.StreamEvent, { type: "content_block_start" }>;

const blockStart = ({ index, content_block: block }: BlockStart, blocks: Blocks): AgentEvent[] => {
  const { type, id, name } = block;
  if (type === "tool_use" && typeof id === "string" && typeof name === "string" && id && name)
    return [{ type: "tool_start", id, name }];
  return type === "text" || type === "thinking" ? blocks.start(index, type) : [];
};

const assistant = readLine(wire.AssistantLine, (line, { blocks, facts }) => {
  const parent = line.parent_tool_use_id ?? null;
  facts.turnOpen = true;
  if (line.message.model === "<synthetic>" || line.error) {
    // The CLI's own text about a failed request; the result repeats it.
    facts.apiError = line.error ?? facts.apiError;
    return [];
  }
  facts.workedSinceResult = true;
  // One that was not streamed.
  const id = line.message.id ?? null;
  if (parent === null && id !== facts.message.id) facts.message = { id, isOpen: false, calls: 0 };
  return line.message.content.flatMap((block): AgentEvent[] => {
    if (block.type === "tool_use") {
      if (parent === null) facts.message.calls += 1;
      const tool = wire.ToolUseBlock.safeParse(block);
      return tool.success ? [{ type: "tool_use", ...tool.data, parent }] : [];
    }
    const whole = block[block.type];
    if ((block.type !== "text" && block.type !== "thinking") || typeof whole !== "string" || parent !== null)
      return [];
    return blocks.whole(block.type, whole);
  });
});

const user = readLine(wire.UserLine, (line, { facts }) =>
  line.message.content.flatMap((block): AgentEvent[] => {
    const result = block.type === "tool_result" ? wire.ToolResultBlock.safeParse(block) : null;
    if (!result?.success) return [];
    facts.workedSinceResult = true;
    const { tool_use_id, is_error, content } = result.data;
    const parent = line.parent_tool_use_id ?? null;
    return [
      { type: "tool_result", tool_use_id, content: plainText(content), is_error: is_error ?? false, parent },
    ];
  }),
);

const result = readLine(wire.ResultLine, (line, { blocks, facts }) => {
  facts.workedSinceResult = false;
  facts.turnOpen = false;
  facts.report = line.structured_output ?? null;
  facts.models = line.modelUsage ?? facts.models;
  facts.deferred = [line.stop_reason, line.terminal_reason].includes("tool_deferred");
  return [...blocks.end(), resultEvent(line)];
});

const readers = new Map<string, Reader>([
  [
    "system",
    (value, state) => {
      if (value["subtype"] === "init") return started(value, state);
      if (value["subtype"] === "model_refusal_no_fallback") state.facts.refused = true;
      return value["subtype"] === "api_retry" ? retry(value, state) : [];
    },
  ],
  ["rate_limit_event", rateLimit],
  ["stream_event", stream],
  ["assistant", assistant],
  ["user", user],
  ["result", result],
]);

const parseObject = (line: string): Record<string, unknown> | null => {
  if (!line.trimStart().startsWith("{")) return null;
  try {
    // It begins with a brace.
    return parseJson(line) as Record<string, unknown>;
  } catch {
    // Not JSON: a warning of some program, or a cut line.
    return null;
  }
};

/** Content is a string or a list of blocks, of which only text can be shown. */
const plainText = (content: z.output<typeof wire.ToolResultBlock>["content"]): string => {
  if (typeof content === "string") return content;
  return (content ?? [])
    .map((block) => (typeof block["text"] === "string" ? block["text"] : `[${block.type}]`))
    .join("\n");
};

/** Seconds since the epoch as an instant. */
const instant = (seconds: number | null): string | null => {
  const date = seconds === null ? null : new Date(seconds * 1000);
  return date === null || Number.isNaN(date.getTime()) ? null : date.toISOString();
};

export type ResultEvent = Extract<AgentEvent, { type: "result" }>;

/** The CLI's report on the run. A refused request also has the subtype `success`: `is_error` decides. */
const resultEvent = (line: z.output<typeof wire.ResultLine>): ResultEvent => ({
  type: "result",
  ok: !(line.is_error ?? line.subtype !== "success") && !line.subtype.startsWith("error") && !wasCutOff(line),
  text: line.result ?? line.errors?.join("\n") ?? "",
  subtype: wasCutOff(line) ? cutOff : line.subtype,
  api_status: line.api_error_status ?? null,
  session_id: line.session_id ?? null,
  num_turns: line.num_turns ?? null,
  cost_usd: line.total_cost_usd ?? null,
  usage: line.usage ?? null,
  duration_ms: roundedOrNull(line.duration_ms ?? null),
});

/** Subtype of the result of a turn that ended for the sake of a message: no answer, but not a failure either. */
const cutOff = "cut_off";
export const isCutOff = (result: ResultEvent | null): boolean => result?.subtype === cutOff;

/** The CLI calls it a success, with half a text. */
const wasCutOff = ({ subtype, terminal_reason }: z.output<typeof wire.ResultLine>): boolean =>
  subtype === "success" && terminal_reason?.startsWith("aborted_") === true;

/**
 * Whether a result replaces the one before it. The last one decides, with one exception: an error right after a
 * success, with nothing done in between, reports the CLI's own shutdown (docs/decisions/0002-which-result-decides.md).
 */
export const replaces = (before: ResultEvent | null, next: ResultEvent, workedInBetween: boolean): boolean =>
  before === null || !before.ok || next.ok || workedInBetween || isCutOff(next);

const roundedOrNull = (value: number | null): number | null => (value === null ? null : Math.round(value));
