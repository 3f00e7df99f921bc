import { ServiceError, type ErrorCode } from "../contract/errors.ts";
import { failureOf, type Reply } from "../http/reply.ts";

/** The body of a failure as clients of chat completions know it. */
export type PublicFailure = {
  error: { message: string; type: string; param: string | null; code: string };
};

/** A fault of a request that stands at one place of its body. */
export class RequestFault extends ServiceError {
  override name = "RequestFault";
  /** The place, as in `messages[2].content`. */
  readonly param: string;
  /** In the words of the public format, which knows more of them than the contract. */
  readonly publicCode: string;

  constructor(param: string, message: string, publicCode = "invalid_value") {
    super("invalid_request", `${param}: ${message}`);
    this.param = param;
    this.publicCode = publicCode;
  }
}

/** Failures after an agent was started: asking again would cost again, so client libraries are told not to by themselves. */
const costly = (code: ErrorCode): boolean =>
  code !== "model_not_found" && (/^(agent|model)_/.test(code) || others.has(code));

const others: ReadonlySet<ErrorCode> = new Set([
  "max_turns_reached",
  "budget_reached",
  "turn_timeout",
  "turn_cancelled",
]);

/** Tells a failure in the public shape. The body of 401 is the service's own: it is the same at every path. */
export const tellPublicly = (error: ServiceError): Reply => {
  const reply = failureOf(error);
  if (error.status === 401) return reply;
  const again = error.status === 429 && error.retryAfter !== undefined;
  return {
    ...reply,
    headers: {
      ...reply.headers,
      ...(costly(error.code) && { "x-should-retry": "false" }),
      ...(again && { "retry-after": String(error.retryAfter) }),
    },
    body: JSON.stringify(publicFailure(error)),
  };
};

const publicFailure = (error: ServiceError): PublicFailure => ({
  error: {
    message: error.message,
    type: typeOf(error.status),
    param: error instanceof RequestFault ? error.param : error.code === "model_not_found" ? "model" : null,
    code: error instanceof RequestFault ? error.publicCode : error.code,
  },
});

const typeOf = (status: number): string => {
  if (status >= 500) return "server_error";
  return types[status] ?? "invalid_request_error";
};

const types: Record<number, string> = { 403: "permission_error", 429: "rate_limit_error" };
