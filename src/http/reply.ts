import {
  ServiceError,
  statusOf,
  unauthorizedBody,
  type ErrorCode,
  type Failure,
} from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import type { EventBody } from "./event-stream.ts";

/** An answer as plain data; the boundary turns it into a `Response` and adds what every answer carries. */
export type Reply = {
  status: number;
  headers: Record<string, string>;
  body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | EventBody | null;
};

/** One whose body is text. */
type TextReply = Reply & { body: string };

export const json = (status: number, value: unknown): TextReply => ({
  status,
  headers: { "content-type": "application/json", "cache-control": "no-store" },
  body: JSON.stringify(value),
});

/** What every door says of a failure. */
export const failureBody = (code: ErrorCode, error: string): Failure => ({ success: false, error, code });

/** The failure body of `contract/errors.ts`, with the headers that HTTP wants for its status. */
export const failure = (code: ErrorCode, error: string, headers: Record<string, string> = {}): TextReply => {
  const reply = json(statusOf[code], failureBody(code, error));
  return { ...reply, headers: { ...reply.headers, ...headers } };
};

const defaultRetryAfter = 5;

export const failureOf = (error: ServiceError): Reply => {
  switch (error.status) {
    case 401: {
      const reply = json(401, unauthorizedBody);
      return { ...reply, headers: { ...reply.headers, "www-authenticate": "Bearer" } };
    }
    case 413:
      // What is left of the body is not worth reading: the connection ends with this answer.
      return failure(error.code, error.message, { connection: "close" });
    case 503:
      return failure(error.code, error.message, {
        "retry-after": String(error.retryAfter ?? defaultRetryAfter),
      });
    default:
      return failure(error.code, error.message);
  }
};

/**
 * The failure that the caller is given, whatever was thrown. What nobody foresaw is given without its details, which are in
 * the log under the request's id.
 */
export const serviceErrorOf = (
  error: unknown,
  { log, requestId }: { log: Log; requestId: string },
): ServiceError => {
  if (error instanceof ServiceError) {
    if (error.status === 503) log.info({ code: error.code, request_id: requestId }, error.message);
    else if (error.status >= 500) log.warn({ err: error, request_id: requestId }, "request failed");
    return error;
  }
  log.error({ err: error, request_id: requestId }, "request failed unexpectedly");
  return new ServiceError(
    "internal",
    `The service failed unexpectedly; its log tells more under request id ${requestId}`,
  );
};

/** For what is only there in agent mode. */
export const agentModeOff = (what: string): ServiceError =>
  new ServiceError(
    "not_found",
    `${what} is part of agent mode, which is off; start the service with AGENT_MODE=true`,
  );
