import { publicError, type PublicError } from "../chat/failure.ts";
import { ServiceError, type ErrorCode } from "../contract/errors.ts";
import { failureOf, type Reply } from "../http/route.ts";

/** A fault at one place of a request's body. */
export class RequestFault extends ServiceError {
  override name = "RequestFault";
  /** The place, such as `messages[2].content`. */
  readonly param: string;
  /** In the terms of the public format, which has more codes than the contract. */
  readonly publicCode: string;

  constructor(param: string, message: string, publicCode = "invalid_value") {
    super("invalid_request", `${param}: ${message}`);
    this.param = param;
    this.publicCode = publicCode;
  }
}

/** Failures after an agent was started: a retry would cost again, so client libraries are told not to retry. */
const costly = (code: ErrorCode): boolean =>
  code !== "model_not_found" && (/^(agent|model)_/.test(code) || others.has(code));

const others: ReadonlySet<ErrorCode> = new Set([
  "max_turns_reached",
  "max_budget_reached",
  "turn_timeout",
  "turn_cancelled",
]);

/** A failure in the public format. The body of 401 is the service's own: it is the same at every path. */
export const publicReply = (error: ServiceError): Reply => {
  const reply = failureOf(error);
  if (error.status === 401) return reply;
  return {
    ...reply,
    headers: {
      ...reply.headers,
      ...(costly(error.code) && { "x-should-retry": "false" }),
    },
    body: JSON.stringify(publicFailure(error)),
  };
};

const publicFailure = (error: ServiceError): { error: PublicError } => {
  if (error instanceof RequestFault)
    return { error: { ...publicError(error, error.param), code: error.publicCode } };
  return { error: publicError(error, error.code === "model_not_found" ? "model" : null) };
};
