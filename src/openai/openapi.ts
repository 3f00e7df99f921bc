import { z } from "zod";
import type { ZodOpenApiOperationObject } from "zod-openapi";
import { createChunks, doneEvent } from "../chat/chunks.ts";
import type { ErrorCode } from "../contract/errors.ts";
import { agentModeTag, errorResponses } from "../http/openapi.ts";
import { ChatCompletionRequest } from "./request-schema.ts";

const tags = [agentModeTag];

const PublicFailure = z
  .object({
    error: z.object({
      message: z.string().describe("A sentence that says what is wrong and what to do"),
      type: z.enum(["invalid_request_error", "permission_error", "rate_limit_error", "server_error"]),
      param: z.string().nullable().describe("The field at fault"),
      code: z.string().describe("Stable identifier of the failure, snake_case"),
    }),
  })
  .meta({ id: "PublicFailure" });

const failures = (codes: readonly ErrorCode[]) => errorResponses(codes, PublicFailure);

const Usage = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: z.object({ cached_tokens: z.int() }),
});

const ChatCompletion = z
  .looseObject({
    id: z.string(),
    object: z.literal("chat.completion"),
    created: z.int(),
    model: z.string(),
    choices: z.array(
      z.looseObject({
        index: z.literal(0),
        message: z.looseObject({
          role: z.literal("assistant"),
          content: z.string().nullable(),
          refusal: z.null(),
        }),
        logprobs: z.null(),
        finish_reason: z.string(),
      }),
    ),
    usage: Usage,
  })
  .meta({ id: "ChatCompletion" });

const Model = z
  .object({ id: z.string(), object: z.literal("model"), created: z.int(), owned_by: z.string() })
  .meta({ id: "Model" });

const chunks = createChunks({ id: "chatcmpl-5f1c", created: 1_772_442_900, model: "sonnet" });
const streamExample = [
  chunks.role(),
  chunks.delta({ kind: "thinking", text: "I look at the log" }),
  chunks.delta({ kind: "final", text: "The clock change broke it." }),
  chunks.stop(null, false),
  doneEvent,
].join("");

const optional = (description: string) => z.string().optional().meta({ description });

export const chatDescription: ZodOpenApiOperationObject = {
  operationId: "create_chat_completion",
  tags,
  summary: "Ask the agent, in the chat completions format",
  description:
    "Runs the loaded agent for one turn of a conversation. With `stream` the thinking, the tools and the text come as they " +
    "happen; `x_service_event_type` in a choice says what a chunk is. The caller's leaving stops the turn, as configured. " +
    'Failures once the stream has begun are a last `data: {"error": …}` before `[DONE]`.',
  requestParams: {
    header: z.object({
      "X-Conversation-Id": optional(
        "Conversation to continue; also X-OpenWebUI-Chat-Id, X-LibreChat-Conversation-Id",
      ),
      "X-User-Id": optional("Keeps the conversations of users apart; also X-OpenWebUI-User-Id"),
      "X-Request-Id": optional(
        "The caller's own: the same with the same body joins the turn under way. Given back as X-Client-Request-Id",
      ),
      "X-Service-Task": optional(
        "What a chat UI asks on the side (title, tags, follow_up …); answered without the agent",
      ),
    }),
  },
  requestBody: { required: true, content: { "application/json": { schema: ChatCompletionRequest } } },
  responses: {
    "200": {
      description: "The answer, or the stream of its chunks",
      headers: z.object({
        "X-Conversation-Id": optional("Id of the conversation"),
        "X-Service-Conversation-Source": optional("How it was found: header, metadata, hash or new"),
        "X-Service-Ignored-Params": optional("Fields that were accepted and ignored"),
      }),
      content: {
        "application/json": { schema: ChatCompletion },
        "text/event-stream": { schema: z.string(), example: streamExample },
      },
    },
    ...failures([
      "unsupported_content_type",
      "model_not_found",
      "conversation_busy",
      "turn_cancelled",
      "body_too_large",
      "model_rate_limited",
      "agent_failed",
      "agent_crashed",
      "agent_not_found",
      "max_turns_reached",
      "max_budget_reached",
      "model_failed",
      "model_credentials",
      "capacity_full",
      "no_model_credential",
      "draining",
      "store_unavailable",
      "turn_timeout",
      "agent_stalled",
    ]),
  },
};

export const modelsDescription: ZodOpenApiOperationObject = {
  operationId: "list_models",
  tags,
  summary: "What `model` may be",
  responses: {
    "200": {
      description: "The loaded agent, then its tiers and aliases",
      content: {
        "application/json": { schema: z.object({ object: z.literal("list"), data: z.array(Model) }) },
      },
    },
    ...failures([]),
  },
};

export const modelDescription: ZodOpenApiOperationObject = {
  operationId: "get_model",
  tags,
  summary: "Get a model",
  requestParams: { path: z.object({ id: z.string() }) },
  responses: {
    "200": { description: "It is there", content: { "application/json": { schema: Model } } },
    ...failures(["model_not_found"]),
  },
};

export const cancelDescription: ZodOpenApiOperationObject = {
  operationId: "cancel_chat_completion",
  tags,
  summary: "Stop an answer under way",
  requestParams: { path: z.object({ id: z.string().describe("The `id` in its chunks") }) },
  responses: {
    "200": {
      description: "It is being stopped",
      content: {
        "application/json": {
          schema: z.object({
            id: z.string(),
            object: z.literal("chat.completion.cancelled"),
            cancelled: z.literal(true),
          }),
        },
      },
    },
    ...failures(["not_found"]),
  },
};
