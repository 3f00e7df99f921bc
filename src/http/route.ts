import type { Context } from "hono";
import type { ZodOpenApiOperationObject } from "zod-openapi";
import { ServiceError, unauthorizedBody, type ErrorCode, type Failure } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { toJson } from "../lib/well-formed.ts";
import type { Authenticate } from "./access.ts";
import type { EventBody } from "./event-stream.ts";

/** A request that has passed the checks of the boundary. */
export type Call = {
  request: Request;
  /** Hono's, for its own handlers. */
  context: Context;
  /** Decoded path parameters. */
  path: Record<string, string>;
  /** Digest of the caller's key; `open` when no keys are set; `unauthenticated` at an open route without a valid key. */
  principal: string;
  /** Scopes of the caller; null: everything. */
  scopes: readonly string[] | null;
  requestId: string;
  /** Adds fields to the request's log line. */
  note: (more: Record<string, unknown>) => void;
  /** Resolves when a wrong key of this caller may be answered. */
  wrongKey: () => Promise<void>;
  disconnect: () => void;
};

export type Route = {
  method: "get" | "post" | "put" | "delete" | "options";
  /** With parameters in braces, as in the contract: `/jobs/{job_id}`; `*` or `{path}` at the end is the rest of a path. */
  path: string;
  /** Answers without a key. */
  open?: boolean;
  /** Finds out who sent a request, in the place of the service's keys. */
  authenticate?: Authenticate;
  /** Pages of other origins may read its answers if the source check admits the request. */
  crossOrigin?: boolean;
  /** Neither `Origin` nor, with `anyHost`, `Host` is checked: what it answers is for everybody. */
  anyOrigin?: boolean;
  anyHost?: boolean;
  /** It only refuses, with a message of its own. The `Allow` header leaves the method out. */
  refusing?: boolean;
  /** The format of failures, here and at unknown paths that begin with `under`. Absent: that of the contract. */
  failures?: { under: string; reply: (error: ServiceError) => Reply };
  /** Its description in the OpenAPI document, for a route that is no operation of the contract. */
  openapi?: ZodOpenApiOperationObject;
  /** Libraries make a `Response` of their own. The boundary adds the common headers to both. */
  handle: (call: Call) => Reply | Response | Promise<Reply | Response>;
};

export const routerPath = (path: string): string =>
  path.replace(/\{path\}$/, ":path{.+}").replaceAll(/\{(\w+)\}/g, ":$1");

export const pathParameters = (path: string): string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "");

/** An answer as plain data. The boundary adds the common headers and makes a `Response` of it. */
export type Reply = {
  status: number;
  headers: Record<string, string>;
  body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | EventBody | null;
};

type TextReply = Reply & { body: string };

export const json = (status: number, value: unknown, headers: Record<string, string> = {}): TextReply => ({
  status,
  headers: { "content-type": "application/json", "cache-control": "no-store", ...headers },
  body: toJson(value),
});

/** The body of a failure, over REST and MCP. */
export const failureBody = (code: ErrorCode, error: string): Failure => ({ success: false, error, code });

const defaultRetryAfter = 5;

/** A failure in the contract's format. */
export const failureOf = ({ code, status, message, retryAfter }: ServiceError): TextReply => {
  if (status === 401) return json(401, unauthorizedBody, { "www-authenticate": "Bearer" });
  return json(status, failureBody(code, message), {
    // The rest of the body is not read.
    ...(status === 413 && { connection: "close" }),
    ...((status === 429 || status === 503) && { "retry-after": String(retryAfter ?? defaultRetryAfter) }),
  });
};

/** Turns what was thrown into the failure for the caller. Only the log has the details of an unexpected error. */
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
    `The service failed unexpectedly; see its log under request id ${requestId}`,
  );
};

export const agentModeOff = (what: string): ServiceError =>
  new ServiceError(
    "not_found",
    `${what} is part of agent mode, which is off; start the service with AGENT_MODE=true`,
  );
