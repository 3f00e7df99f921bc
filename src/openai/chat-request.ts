import { hash } from "node:crypto";
import type { z } from "zod";
import type { ChatRequest } from "../chat/chat.ts";
import { faultMessage } from "../http/faults.ts";
import { lenient } from "../http/lenient.ts";
import {
  conversationHeader,
  conversationInMetadata,
  headerText,
  isRetry,
  userHeader,
} from "./caller-headers.ts";
import { readMessages } from "./messages.ts";
import { RequestFault } from "./public-failure.ts";
import { ChatCompletionRequest } from "./request-schema.ts";

/**
 * The body in the public format. The messages are not checked yet.
 * @throws RequestFault of the first field at fault
 */
export const checkedBody = (body: Record<string, unknown>): ChatCompletionRequest => {
  const result = ChatCompletionRequest.safeParse(lenient(ChatCompletionRequest, body), {
    error: faultMessage,
  });
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw issue === undefined ? result.error : faultOf(issue);
};

/**
 * The request in the chat's terms.
 * @param bytes the body as it was sent
 * @throws ServiceError `invalid_request`, mostly a RequestFault
 */
export const chatRequestOf = (
  body: ChatCompletionRequest,
  headers: Headers,
  bytes: Uint8Array,
): ChatRequest => ({
  model: body.model,
  stream: body.stream ?? false,
  includeUsage: body.stream_options?.include_usage ?? false,
  ...readMessages(body.messages),
  timeoutSeconds: body.timeout ?? null,
  effort: effortOf(body),
  disabledMcpServers: body.disable_mcp_servers ?? [],
  liveText: liveTextOf(body),
  conversation: conversationOf(body, headers),
  user: userHeader(headers),
  retry: { requestId: headerText(headers, "x-request-id"), isRetry: isRetry(headers) },
  digest: hash("sha256", bytes),
});

/**
 * Refuses what is well-formed but not supported: to ignore it would answer another question.
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
  logprobs: { is: ({ logprobs }) => logprobs === true, message: "must be false: there are none" },
  top_logprobs: {
    is: (request) => (request.top_logprobs ?? 0) > 0,
    message: "must be 0: there are none",
  },
  modalities: {
    is: ({ modalities }) => (modalities ?? []).some((modality) => modality !== "text"),
    message: "may have nothing but text",
  },
};

const isFilled = (list: readonly unknown[] | null | undefined): boolean => (list ?? []).length > 0;

const isChoice = (choice: unknown): boolean => ![undefined, null, "none", "auto"].includes(choice as string);

const conversationOf = (body: ChatCompletionRequest, headers: Headers): ChatRequest["conversation"] => {
  const inHeader = conversationHeader(headers);
  if (inHeader !== null) return { id: inHeader, source: "header" };
  const inMetadata = conversationInMetadata(body.metadata?.conversation_id);
  return inMetadata === null ? null : { id: inMetadata, source: "metadata" };
};

const liveTextOf = ({ metadata }: ChatCompletionRequest): boolean | null => {
  const given = metadata?.live_text ?? null;
  return given === null ? null : given === true || given === "true";
};

const effortOf = ({ reasoning_effort, reasoning }: ChatCompletionRequest): ChatRequest["effort"] => {
  const effort = reasoning_effort ?? reasoning?.effort ?? null;
  return effort === null ? null : efforts[effort];
};

const efforts = {
  none: "low",
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high",
} as const;

const faultOf = (issue: z.core.$ZodIssue): RequestFault => {
  const param = issue.path
    .map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`))
    .join("");
  return new RequestFault(param.replace(/^\./, ""), issue.message, codeOf(issue));
};

const codeOf = (issue: z.core.$ZodIssue): string => {
  if (issue.code !== "invalid_type") return "invalid_value";
  return issue.message === isRequired ? "missing_required_parameter" : "invalid_type";
};

/** Message of `faultMessage` for a missing field; the issue itself does not distinguish it from a wrong type. */
const isRequired = "is required";
