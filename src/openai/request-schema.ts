import { z } from "zod";

/** A longer list is checked only as far as needed to refuse it: each faulty item costs time. */
const texts = (max: number) =>
  z.preprocess(
    (given: unknown) => (Array.isArray(given) ? given.slice(0, max + 1) : given),
    z.array(z.string()).max(max),
  );

const efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

/** The JSON schema of a message. `messages.ts` checks its content and names the very part at fault. */
const message: { [keyword: string]: unknown } = {
  type: "object",
  required: ["role"],
  properties: {
    role: { type: "string", enum: ["developer", "system", "user", "assistant", "tool", "function"] },
    content: {
      description:
        "Text, or parts: `text`, and in messages of the user `image_url` with a data URL (PNG, JPEG, GIF, WebP). May be null in messages of the assistant.",
      anyOf: [
        { type: "string" },
        { type: "null" },
        {
          type: "array",
          items: {
            type: "object",
            required: ["type"],
            properties: {
              type: { type: "string", enum: ["text", "image_url", "refusal"] },
              text: { type: "string" },
              image_url: { type: "object", properties: { url: { type: "string" } }, required: ["url"] },
            },
          },
        },
      ],
    },
  },
};

const choice = z
  .union([z.string(), z.looseObject({})], { error: "must be a string or an object" })
  .nullish()
  .describe("Only none and auto");

/** The fields that are honoured, or refused when they ask for something unsupported. */
const honoured = {
  model: z.string().min(1).max(256).meta({ description: "One of `GET /v1/models`", example: "sonnet" }),
  messages: z
    .array(z.unknown())
    .min(1)
    .meta({
      description:
        "The conversation. The last message is the user's; slash tokens in it change what the stream shows",
      override: { type: "array", minItems: 1, items: message },
      example: [{ role: "user", content: "Why does the nightly build fail?" }],
    }),
  stream: z.boolean().nullish().describe("Send chunks as the agent works; default false"),
  stream_options: z
    .looseObject({
      include_usage: z.boolean().nullish().describe("Also send the public format's extra chunk with `usage`"),
    })
    .nullish(),
  timeout: z
    .int()
    .min(1)
    .max(604_800)
    .nullish()
    .describe("Seconds the answer may take; default: the agent's own limit"),
  disable_mcp_servers: texts(100).nullish().describe("Names of MCP servers that the agent does without"),
  metadata: z
    .looseObject({
      conversation_id: z
        .string()
        .nullish()
        .describe("Conversation to continue, where X-Conversation-Id cannot be set"),
      live_text: z
        .union([z.boolean(), z.literal(["true", "false"])], { error: "must be true or false" })
        .nullish()
        .describe("Send text as the model writes it, untagged; default: as configured"),
    })
    .nullish(),
  reasoning_effort: z
    .enum(efforts)
    .nullish()
    .describe("none and minimal count as low, xhigh and max as high"),
  reasoning: z
    .looseObject({ effort: z.enum(efforts).nullish() })
    .nullish()
    .describe("`effort` is read as `reasoning_effort`"),
  n: z.int().min(1).max(128).nullish().describe("Only 1"),
  tools: z
    .array(z.unknown())
    .nullish()
    .describe("Not supported unless empty: the agent has tools of its own"),
  functions: z.array(z.unknown()).nullish().describe("As `tools`"),
  tool_choice: choice,
  function_call: choice,
  response_format: z.looseObject({ type: z.string() }).nullish().describe("Only type text"),
  logprobs: z.boolean().nullish().describe("Only false"),
  top_logprobs: z.int().min(0).max(20).nullish().describe("Only 0"),
  modalities: texts(10).nullish().describe("Only text"),
};

/** Fields of the public format that the agent has no use for, whatever their value. */
const ignored = [
  "temperature",
  "top_p",
  "presence_penalty",
  "frequency_penalty",
  "max_tokens",
  "max_completion_tokens",
  "seed",
  "stop",
];

/**
 * The body of `POST /v1/chat/completions`. Unknown fields are accepted and ignored: the public format grows. What is
 * well-formed but not supported is refused afterwards.
 */
export const ChatCompletionRequest = z
  .looseObject({
    ...honoured,
    ...Object.fromEntries(
      ignored.map((name) => [name, z.unknown().optional().describe("Accepted and ignored")]),
    ),
  })
  .meta({ id: "ChatCompletionRequest" });
export type ChatCompletionRequest = z.infer<typeof ChatCompletionRequest>;

/** Names of ignored fields, as far as a header can contain them; at most 50. */
export const ignoredParameters = (body: Record<string, unknown>): string[] =>
  Object.keys(body)
    .filter((name) => !Object.hasOwn(honoured, name) && body[name] !== null && /^[\w.-]{1,64}$/.test(name))
    .slice(0, 50);
