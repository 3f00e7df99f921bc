import { ServiceError } from "../contract/errors.ts";
import { failureOf, json, type Reply } from "../http/route.ts";

/** JSON-RPC's own answer to a body that cannot be read as JSON; other failures are answered as on every other path. */
export const rpcFailure = (error: ServiceError): Reply => {
  if (error.code === "invalid_request") return rpcError(400, parseError, error.message);
  if (error.code === "unsupported_content_type") return rpcError(415, serverError, error.message);
  return failureOf(error);
};

export const rpcError = (status: number, code: number, message: string): Reply =>
  json(status, { jsonrpc: "2.0", error: { code, message }, id: null });

/** For a client that asks for a stream during the shutdown. */
export const shuttingDown = (): ServiceError =>
  new ServiceError("draining", "This instance is shutting down; connect again shortly", { retryAfter: 10 });

const parseError = -32_700;
export const serverError = -32_000;
export const invalidRequest = -32_600;

export const maxBatch = 20;

/** For a body that is JSON, but neither a message nor a batch of the allowed size. */
export const notMessages = (): Reply =>
  rpcError(
    400,
    invalidRequest,
    `Invalid Request: send a JSON-RPC message, or an array of 1 to ${maxBatch} of them`,
  );
