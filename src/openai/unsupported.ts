import { RequestFault } from "./public-failure.ts";
import type { ChatCompletionRequest } from "./request-schema.ts";

/**
 * Refuses what is well-formed but cannot be done: to leave it out in silence would give an answer to another question.
 * @throws RequestFault
 */
export const refuseUnsupported = (request: ChatCompletionRequest): void => {
  for (const [param, { is, message, code = "unsupported_value" }] of Object.entries(unsupported))
    if (is(request)) throw new RequestFault(param, message, code);
};

type Unsupported = { is: (request: ChatCompletionRequest) => boolean; message: string; code?: string };

const ownTools =
  "is not supported: the agent uses tools of its own and never calls the caller's; leave it out";
const onlyText = "must be text: other forms are not supported; ask for the form in the message";

const unsupported: Record<string, Unsupported> = {
  n: { is: ({ n }) => (n ?? 1) > 1, message: "must be 1: a request has one answer" },
  tools: { is: ({ tools }) => isFilled(tools), message: ownTools, code: "unsupported_parameter" },
  functions: { is: ({ functions }) => isFilled(functions), message: ownTools, code: "unsupported_parameter" },
  tool_choice: { is: (request) => isChoice(request.tool_choice), message: "must be none or auto" },
  function_call: { is: (request) => isChoice(request.function_call), message: "must be none or auto" },
  response_format: {
    is: (request) => (request.response_format?.type ?? "text") !== "text",
    message: onlyText,
  },
  logprobs: { is: ({ logprobs }) => logprobs === true, message: "must be false: there are none to tell" },
  top_logprobs: {
    is: (request) => (request.top_logprobs ?? 0) > 0,
    message: "must be 0: there are none to tell",
  },
  modalities: {
    is: ({ modalities }) => (modalities ?? []).some((modality) => modality !== "text"),
    message: "may have nothing but text",
  },
};

const isFilled = (list: readonly unknown[] | null | undefined): boolean => (list ?? []).length > 0;

const isChoice = (choice: unknown): boolean => ![undefined, null, "none", "auto"].includes(choice as string);
