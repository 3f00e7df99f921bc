import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";

/**
 * What OpenAI's published description of its API (openai-openapi, 2.3.0) asks of chat completions, cut down to the
 * parts that we send. Additional fields are allowed, as they are there. Each check returns what is wrong, in words.
 */
export const checkChunk = (value: unknown): string[] => faultsBy(isChunk, value);
export const checkCompletion = (value: unknown): string[] => faultsBy(isCompletion, value);
export const checkError = (value: unknown): string[] => faultsBy(isError, value);
export const checkModels = (value: unknown): string[] => faultsBy(isModels, value);
export const checkModel = (value: unknown): string[] => faultsBy(isModel, value);

const string = { type: "string" };
const integer = { type: "integer" };
const text = { type: ["string", "null"] };
const only = (...values: string[]) => ({ type: "string", enum: values });
const object = (properties: Record<string, object>, optional: readonly string[] = []) => ({
  type: "object",
  properties,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
});

const finishReasons = ["stop", "length", "tool_calls", "content_filter", "function_call"];
const logprobs = {
  anyOf: [
    object({ content: { type: ["array", "null"] }, refusal: { type: ["array", "null"] } }),
    { type: "null" },
  ],
};
const toolCall = object(
  { index: integer, id: string, type: only("function"), function: { type: "object" } },
  ["id", "type", "function"],
);

const usage = object(
  {
    prompt_tokens: integer,
    completion_tokens: integer,
    total_tokens: integer,
    prompt_tokens_details: object(
      { audio_tokens: integer, cached_tokens: integer, cache_write_tokens: integer },
      ["audio_tokens", "cached_tokens", "cache_write_tokens"],
    ),
    completion_tokens_details: object({ audio_tokens: integer, reasoning_tokens: integer }, [
      "audio_tokens",
      "reasoning_tokens",
    ]),
  },
  ["prompt_tokens_details", "completion_tokens_details"],
);

const delta = object(
  {
    content: text,
    refusal: text,
    role: only("developer", "system", "user", "assistant", "tool"),
    tool_calls: { type: "array", items: toolCall },
  },
  ["content", "refusal", "role", "tool_calls"],
);

const chunk = object(
  {
    id: string,
    object: only("chat.completion.chunk"),
    created: integer,
    model: string,
    choices: {
      type: "array",
      items: object(
        {
          index: integer,
          delta,
          finish_reason: { type: ["string", "null"], enum: [...finishReasons, null] },
          logprobs,
        },
        ["logprobs"],
      ),
    },
    usage: { anyOf: [usage, { type: "null" }] },
    service_tier: text,
    system_fingerprint: string,
  },
  ["usage", "service_tier", "system_fingerprint"],
);

const message = object(
  {
    role: only("assistant"),
    content: text,
    refusal: text,
    tool_calls: { type: "array" },
    annotations: { type: "array" },
  },
  ["tool_calls", "annotations"],
);

const completion = object(
  {
    id: string,
    object: only("chat.completion"),
    created: integer,
    model: string,
    choices: {
      type: "array",
      items: object({ index: integer, message, logprobs, finish_reason: only(...finishReasons) }),
    },
    usage,
    service_tier: text,
    system_fingerprint: string,
  },
  ["usage", "service_tier", "system_fingerprint"],
);

const error = object({ error: object({ message: string, type: string, param: text, code: text }) });

const model = object({ id: string, object: only("model"), created: integer, owned_by: string });
const models = object({ object: only("list"), data: { type: "array", items: model } });

const ajv = new Ajv({ allErrors: true, allowUnionTypes: true });
const isChunk = ajv.compile(chunk);
const isCompletion = ajv.compile(completion);
const isError = ajv.compile(error);
const isModels = ajv.compile(models);
const isModel = ajv.compile(model);

const faultsBy = (isValid: ValidateFunction, value: unknown): string[] =>
  isValid(value) ? [] : (isValid.errors ?? []).map(inWords);

const inWords = ({ instancePath, message: what = "is wrong" }: ErrorObject): string =>
  `${instancePath || "it"} ${what}`;
