import { json, type Call, type Reply, type Route } from "../http/route.ts";
import type { ServiceError } from "../contract/errors.ts";

/** A failure in OAuth's own words (RFC 6749, RFC 7591). `message` is the description that the client gets. */
export class OAuthError extends Error {
  override name = "OAuthError";
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** An open route whose failures are `{"error", "error_description"}`. Pages of any origin may use it. */
export const oauthRoute = (
  method: "get" | "post",
  path: string,
  answer: (call: Call) => Reply | Promise<Reply>,
): Route => ({
  method,
  path,
  open: true,
  crossOrigin: true,
  anyOrigin: true,
  failures: { under: path, reply: failureOf },
  handle: async (call) => {
    try {
      return await answer(call);
    } catch (error) {
      if (error instanceof OAuthError) return oauthFailure(error);
      throw error;
    }
  },
});

const oauthFailure = ({ code, status, message }: OAuthError): Reply =>
  json(
    status,
    { error: code, error_description: message },
    status === 401 ? { "www-authenticate": 'Basic realm="token"' } : {},
  );

const failureOf = ({ status, message }: ServiceError): Reply =>
  json(
    status,
    { error: status < 500 ? "invalid_request" : "server_error", error_description: message },
    // The rest of a body that is too large is not read.
    status === 413 ? { connection: "close" } : {},
  );
