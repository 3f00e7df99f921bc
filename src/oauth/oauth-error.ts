import { ServiceError } from "../contract/errors.ts";
import { json, type Reply, type Route } from "../http/route.ts";

/** A failure in OAuth's own words (RFC 6749, RFC 7591). `message` is the description that the client gets. */
export class OAuthError extends ServiceError {
  override name = "OAuthError";
  readonly oauthCode: string;
  readonly answeredWith: number;

  constructor(oauthCode: string, message: string, answeredWith = 400) {
    super("invalid_request", message);
    this.oauthCode = oauthCode;
    this.answeredWith = answeredWith;
  }
}

/** An open route whose failures are `{"error", "error_description"}`. Pages of any origin may use it. */
export const oauthRoute = (method: "get" | "post", path: string, handle: Route["handle"]): Route => ({
  method,
  path,
  open: true,
  crossOrigin: true,
  anyOrigin: true,
  failures: { under: path, reply: oauthFailure },
  handle,
});

const oauthFailure = (error: ServiceError): Reply => {
  const { message } = error;
  const isOwn = error instanceof OAuthError;
  const status = isOwn ? error.answeredWith : error.status;
  const code = isOwn ? error.oauthCode : status < 500 ? "invalid_request" : "server_error";
  return json(
    status,
    { error: code, error_description: message },
    {
      ...(isOwn && status === 401 && { "www-authenticate": 'Basic realm="token"' }),
      // The rest of a body that is too large is not read.
      ...(status === 413 && { connection: "close" }),
    },
  );
};
