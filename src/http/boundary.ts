import type { ServerResponse } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { createAuthentication, stranger } from "./authentication.ts";
import { checkPathEncoding, maskedTarget } from "./query.ts";
import { readableElsewhere } from "./cross-origin.ts";
import { failureOf, type Reply } from "./reply.ts";
import type { Call, Route } from "./route.ts";
import { createSourceCheck } from "./source-check.ts";
import { toldFailure } from "./told-failure.ts";

type Handled = Pick<Route, "open" | "crossOrigin" | "failures" | "handle">;

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

  /** Where no key is needed, one may still be given. */
  const identify = (request: Request): string => {
    try {
      return authenticate(request);
    } catch {
      return stranger;
    }
  };

  const answer = async (
    route: Handled,
    context: Context,
    { requestId, note }: Pick<Call, "requestId" | "note">,
  ): Promise<Reply | Response> => {
    const request = context.req.raw;
    const principal = route.open === true ? identify(request) : authenticate(request);
    checkPathEncoding(request.url);
    return route.handle({
      request,
      principal,
      requestId,
      note,
      path: context.req.param(),
      cut: () => (context.env as Partial<HttpBindings>).outgoing?.destroy(),
    });
  };

  return (route: Handled) =>
    async (context: Context): Promise<Response> => {
      const started = performance.now();
      const requestId = newRequestId();
      const { raw: request } = context.req;
      let reply: Reply | Response;
      let shared: Record<string, string> = {};
      let noted: Record<string, unknown> | undefined;
      let isLogged = false;
      const note = (more: Record<string, unknown>): void => {
        if (isLogged) log.info({ ...more, request_id: requestId }, "of a request answered in a stream");
        else noted = { ...noted, ...more };
      };
      try {
        checkSource(request.headers);
        if (route.crossOrigin === true) shared = readableElsewhere(request.headers);
        reply = await answer(route, context, { requestId, note });
      } catch (error) {
        reply = translated(error, { requestId, log, request, route });
      }
      const ms = Math.round((performance.now() - started) * 10) / 10;
      const line = {
        method: request.method,
        path: maskedTarget(request.url),
        status: reply.status,
        ms,
        request_id: requestId,
        ...noted,
      };
      // Probes come every few seconds and say nothing as long as they succeed.
      if (route.open === true && reply.status < 400) log.debug(line, "request");
      else log.info(line, "request");
      isLogged = true;
      const carried = { "x-content-type-options": "nosniff", ...shared, "x-request-id": requestId };
      if (reply instanceof Response) {
        for (const [name, value] of Object.entries(carried)) reply.headers.set(name, value);
        return reply;
      }
      return sent({ ...reply, headers: { ...carried, ...reply.headers } }, context);
    };
};

/** Streams go past the router to the connection. */
const sent = ({ status, headers, body }: Reply, { env }: Context): Response => {
  if (typeof body !== "function") return new Response(body, { status, headers });
  const { outgoing } = env as { outgoing: ServerResponse };
  outgoing.writeHead(status, headers);
  outgoing.flushHeaders();
  void body(outgoing);
  return RESPONSE_ALREADY_SENT;
};

const translated = (
  error: unknown,
  { requestId, log, request, route }: { requestId: string; log: Log; request: Request; route: Handled },
): Reply => {
  // The caller is gone and what it had started was stopped: nobody reads this answer, and it is no fault of ours.
  if (!(error instanceof ServiceError) && request.signal.aborted)
    return { status: 499, headers: {}, body: null };
  const { tell = failureOf } = route.failures ?? {};
  return tell(toldFailure(error, { requestId, log }));
};
