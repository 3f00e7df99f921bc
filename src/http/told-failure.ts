import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";

/**
 * The failure to tell the caller about, whatever was thrown. What nobody foresaw is told without its details, which are
 * in the log under the request's id.
 */
export const toldFailure = (
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
