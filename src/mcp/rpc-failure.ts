import { ServiceError } from "../contract/errors.ts";
import { json, type Reply } from "../http/reply.ts";

/**
 * What JSON-RPC has its own answer for: a body that cannot be parsed or is not JSON at all. Null: to be answered as on
 * every other path.
 */
export const rpcFailure = (error: unknown): Reply | null => {
  if (!(error instanceof ServiceError)) return null;
  if (error.code === "invalid_request") return rpcError(400, parseError, error.message);
  if (error.code === "unsupported_content_type") return rpcError(415, serverError, error.message);
  return null;
};

export const rpcError = (status: number, code: number, message: string): Reply =>
  json(status, { jsonrpc: "2.0", error: { code, message }, id: null });

/** To a client that wants a stream which would have to end at once. */
export const shuttingDown = (): ServiceError =>
  new ServiceError("draining", "This instance is shutting down; connect again shortly", { retryAfter: 10 });

/** A body that is no JSON, or more of it than is parsed. */
export const parseError = -32_700;
const serverError = -32_000;
export const invalidRequest = -32_600;

/** As many messages as one batch may have. */
export const maxBatch = 20;

/** To a body that is JSON but no message, and no batch that may be. */
export const notMessages = (): Reply =>
  rpcError(
    400,
    invalidRequest,
    `Invalid Request: send a JSON-RPC message, or an array of 1 to ${maxBatch} of them`,
  );
