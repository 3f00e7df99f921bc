import { z } from "zod";
import { Outcome, type Usage } from "../../contract/job.ts";

/**
 * The used part of the CLI's stream-json lines. New versions add fields and kinds: objects are loose, and a field that
 * does not fit counts as missing, since a run must not fail for an unused field.
 */
const text = z.string().nullish().catch(null);
const number = z.number().nullish().catch(null);
const count = z.int().min(0).catch(0);
const parent = z.string().nullish().catch(null);

export const InitLine = z.object({
  session_id: z.string(),
  model: text,
  claude_code_version: text,
});

export const RetryLine = z.object({
  attempt: z.int().catch(0),
  max_retries: z.int().catch(0),
  retry_delay_ms: z.number().catch(0),
  error_status: z.int().nullish().catch(null),
  error: text,
});

export const RateLimitLine = z.object({
  rate_limit_info: z.object({ status: z.string(), resetsAt: number, rateLimitType: text }),
});

export type MessageEnd = { type: "message_delta" | "message_stop"; usage?: unknown };

export type StreamEvent =
  | { type: "message_start"; message?: unknown }
  | MessageEnd
  | {
      type: "content_block_start";
      index: number;
      content_block: { type: unknown; id?: unknown; name?: unknown };
    }
  | {
      type: "content_block_delta";
      index: number;
      delta: { type: unknown; text?: unknown; thinking?: unknown };
    }
  | { type: "content_block_stop"; index: number };

const ofMessages = new Set<unknown>(["message_start", "message_delta", "message_stop"]);

/** Without a schema, unlike the rest: an answer has thousands of them, and the check would be most of their cost. */
export const isStreamEvent = (event: unknown): event is StreamEvent => {
  if (!isObject(event)) return false;
  if (ofMessages.has(event["type"])) return true;
  if (!Number.isSafeInteger(event["index"])) return false;
  if (event["type"] === "content_block_delta") return isObject(event["delta"]);
  if (event["type"] === "content_block_start") return isObject(event["content_block"]);
  return event["type"] === "content_block_stop";
};

/** The tokens of a message as updated by what has a `usage`, in which counts may be missing. */
export const updateTokens = (tokens: Usage, reporting: unknown): Usage => {
  const usage = isObject(reporting) ? reporting["usage"] : null;
  if (!isObject(usage)) return tokens;
  const counts = Object.keys(tokens).map((name) => [name, usage[name]] as const);
  return {
    ...tokens,
    ...Object.fromEntries(counts.filter(([, count]) => Number.isSafeInteger(count) && Number(count) >= 0)),
  };
};

/** The id of a message. */
export const idOf = (message: unknown): string | null =>
  isObject(message) && typeof message["id"] === "string" ? message["id"] : null;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

const ContentBlock = z.looseObject({ type: z.string() });
const Content = z.array(ContentBlock).catch([]);

export const AssistantLine = z.object({
  parent_tool_use_id: parent,
  error: text,
  message: z.object({ id: text, model: text, content: Content }),
});

export const UserLine = z.object({
  parent_tool_use_id: parent,
  message: z.object({ content: Content }),
});

export const ToolUseBlock = z.object({ id: z.string(), name: z.string(), input: z.unknown() });
export const ToolResultBlock = z.object({
  tool_use_id: z.string(),
  is_error: z.boolean().nullish().catch(null),
  content: z
    .union([z.string(), z.array(ContentBlock)])
    .nullish()
    .catch(null),
});

/** What `reportSchema` asks for. */
const Report = z.object({
  outcome: Outcome,
  summary: z.string(),
  question: z
    .string()
    .nullish()
    .transform((text) => text ?? ""),
});

/** By model, in all that the process has used. */
const ModelUsage = z
  .record(
    z.string(),
    z.looseObject({}).transform((used) => ({
      input_tokens: count.parse(used["inputTokens"]),
      output_tokens: count.parse(used["outputTokens"]),
      cache_creation_input_tokens: count.parse(used["cacheCreationInputTokens"]),
      cache_read_input_tokens: count.parse(used["cacheReadInputTokens"]),
    })),
  )
  .nullish()
  .catch(null);

export const ResultLine = z.object({
  modelUsage: ModelUsage,
  subtype: z.string().catch("unknown"),
  is_error: z.boolean().nullish().catch(null),
  api_error_status: z.int().nullish().catch(null),
  result: text,
  errors: z.array(z.string()).nullish().catch(null),
  session_id: text,
  num_turns: z.int().nullish().catch(null),
  stop_reason: text,
  terminal_reason: text,
  structured_output: Report.nullish().catch(null),
  total_cost_usd: number,
  duration_ms: number,
  usage: z
    .object({
      input_tokens: count,
      output_tokens: count,
      cache_creation_input_tokens: count,
      cache_read_input_tokens: count,
    })
    .nullish()
    .catch(null),
});

/** A request of the CLI, which waits for its answer. */
export const ControlRequest = z.object({
  type: z.literal("control_request"),
  request_id: z.string(),
  request: z.looseObject({ subtype: z.string() }),
});

export const ControlCancel = z.object({
  type: z.literal("control_cancel_request"),
  request_id: z.string(),
});

/** The CLI has taken up a user line. */
export const Replay = z.object({ type: z.literal("user"), isReplay: z.literal(true), uuid: z.string() });

/** The answer to `cancel_async_message`. */
export const CancelResponse = z.object({
  type: z.literal("control_response"),
  response: z.object({
    request_id: z.string(),
    response: z.object({ cancelled: z.boolean() }).nullish().catch(null),
  }),
});

/** The answer to `get_usage`. */
export const UsageResponse = z.object({
  type: z.literal("control_response"),
  response: z.object({
    request_id: z.literal("usage"),
    response: z.object({ session: z.object({ total_cost_usd: z.number(), model_usage: ModelUsage }) }),
  }),
});

const ToolInput = z.record(z.string(), z.unknown()).catch({});

export const HookCallback = z.object({
  tool_use_id: z.string(),
  input: z.object({ tool_name: z.string(), tool_input: ToolInput }),
});

export const ToolPermission = z.object({
  tool_use_id: z.string(),
  tool_name: z.string(),
  input: ToolInput,
  decision_reason: text,
});

/** Input of AskUserQuestion. */
export const AskedQuestions = z.object({
  questions: z
    .array(
      z.object({
        question: z.string(),
        header: z.string().catch(""),
        options: z.array(z.object({ label: z.string(), description: z.string().catch("") })).catch([]),
        multiSelect: z.boolean().catch(false),
      }),
    )
    .catch([]),
});
