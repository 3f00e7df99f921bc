import type { Context } from "hono";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { createAuthentication } from "./authentication.ts";
import { checkPathEncoding, maskedTarget } from "./query.ts";
import { failure, failureOf, type Reply } from "./reply.ts";
import type { Route } from "./route.ts";
import { createSourceCheck } from "./source-check.ts";

type Dependencies = {
  settings: { host: string; apiKeys: readonly string[] };
  log: Log;
  newRequestId: () => string;
};

/**
 * What every request passes, whatever its path: source check, authentication, the route, one place that turns errors
 * into answers, one log line. It wraps the route's function rather than being middleware, so that the router finds one
 * handler per request and need not compose.
 */
export const createBoundary = ({ settings, log, newRequestId }: Dependencies) => {
  const authenticate = createAuthentication(settings.apiKeys);
  const checkSource = createSourceCheck(settings);

  const answer = async (route: Pick<Route, "open" | "handle">, context: Context): Promise<Reply> => {
    const request = context.req.raw;
    checkSource(request.headers);
    const principal = route.open === true ? "open" : authenticate(request);
    checkPathEncoding(request.url);
    return route.handle({ request, principal, path: context.req.param() });
  };

  return (route: Pick<Route, "open" | "handle">) =>
    async (context: Context): Promise<Response> => {
      const started = performance.now();
      const requestId = newRequestId();
      const { raw: request } = context.req;
      let reply: Reply;
      try {
        reply = await answer(route, context);
      } catch (error) {
        reply = translated(error, { requestId, log, request });
      }
      const ms = Math.round((performance.now() - started) * 10) / 10;
      const line = {
        method: request.method,
        path: maskedTarget(request.url),
        status: reply.status,
        ms,
        request_id: requestId,
      };
      // Probes come every few seconds and say nothing as long as they succeed.
      if (route.open === true && reply.status < 400) log.debug(line, "request");
      else log.info(line, "request");
      return new Response(reply.body, {
        status: reply.status,
        headers: { "x-content-type-options": "nosniff", ...reply.headers, "x-request-id": requestId },
      });
    };
};

const translated = (
  error: unknown,
  { requestId, log, request }: { requestId: string; log: Log; request: Request },
): Reply => {
  if (error instanceof ServiceError) {
    if (error.status >= 500) log.warn({ err: error, request_id: requestId }, "request failed");
    return failureOf(error);
  }
  // The caller is gone and what it had started was stopped: nobody reads this answer, and it is no fault of ours.
  if (request.signal.aborted) return { status: 499, headers: {}, body: null };
  log.error({ err: error, request_id: requestId }, "request failed unexpectedly");
  return failure(
    "internal",
    `The service failed unexpectedly; its log tells more under request id ${requestId}`,
  );
};
