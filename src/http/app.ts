import type { ServerResponse } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { Hono, type Context } from "hono";
import { ServiceError, unauthorizedBody } from "../contract/errors.ts";
import type { Readiness } from "../contract/health.ts";
import type { Handlers } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import { createAuthentication, createSourceCheck, crossOriginHeaders, anonymous } from "./access.ts";
import { docsRoutes } from "./docs-routes.ts";
import { eventsRoute } from "./events-route.ts";
import { openapiDocument } from "./openapi.ts";
import { operationRoutes } from "./operation-route.ts";
import { checkPathEncoding, maskedTarget } from "./query.ts";
import { failureOf, serviceErrorOf, type Reply } from "./reply.ts";
import { methodsAt, routerPath, type Call, type Route } from "./route.ts";
import { statusRoutes } from "./status-routes.ts";

export type AppDependencies = {
  handlers: Handlers<Operations>;
  events: Pick<EventLog, "read">;
  settings: { host: string; apiKeys: readonly string[]; agentMode: boolean };
  readiness: () => Promise<Readiness>;
  metrics: () => Promise<{ contentType: string; body: string }>;
  service: { name: string; version: string };
  log: Log;
  newRequestId: () => string;
  /** Aborted when the service shuts down. */
  closing: AbortSignal;
  /** How long an event stream may be silent before it sends a ping; default 15 s. */
  pingEveryMs?: number;
  /** What else the service answers to, behind the same checks: the MCP doors, the chat completions. */
  routes?: readonly Route[];
};

/** The REST door: every operation of the registry, and what HTTP adds to them. */
export const createApp = (deps: AppDependencies): Hono => {
  const { handlers, settings, service } = deps;
  const parts = { agent: settings.agentMode };
  let openapi: string | undefined;
  const describe = (): string =>
    openapiDocument({ ...service, keyed: settings.apiKeys.length > 0, parts, routes });
  const routes: Route[] = [
    ...statusRoutes(deps),
    ...docsRoutes(() => (openapi ??= describe())),
    ...operationRoutes(handlers, parts),
    eventsRoute({ ...deps, getJob: handlers.get_job }),
    ...(deps.routes ?? []),
  ];
  const boundary = createBoundary(deps);
  const app = new Hono();
  for (const route of routes) app.on(route.method, routerPath(route.path), boundary(route));
  const scopes = routes.filter(({ failures }) => failures !== undefined);
  return app.notFound((context) => {
    const scope = scopes.find(({ failures }) => context.req.path.startsWith(failures?.under ?? "/"));
    return boundary(notFound(routes, scope))(context);
  });
};

type Handled = Pick<Route, "open" | "crossOrigin" | "failures" | "handle">;

/**
 * What every request passes, whatever its path: source check, authentication, the route, one place that turns errors
 * into answers, one log line. It wraps the route's function rather than being middleware, so that the router finds one
 * handler per request and need not compose.
 */
const createBoundary = ({ settings, log, newRequestId }: AppDependencies) => {
  const authenticate = createAuthentication(settings.apiKeys);
  const checkSource = createSourceCheck(settings);

  const answer = async (
    route: Handled,
    context: Context,
    { requestId, note }: Pick<Call, "requestId" | "note">,
  ): Promise<Reply | Response> => {
    const request = context.req.raw;
    // Where no key is needed, one may still be given.
    const principal = authenticate(request) ?? (route.open === true ? anonymous : null);
    if (principal === null) throw new ServiceError("unauthorized", unauthorizedBody.error);
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
        if (route.crossOrigin === true) shared = crossOriginHeaders(request.headers);
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
  const { reply = failureOf } = route.failures ?? {};
  return reply(serviceErrorOf(error, { requestId, log }));
};

/**
 * What answers where no route does. Behind the boundary like everything else: without a key nobody learns which paths
 * there are. It speaks as the routes do that `failures` says it stands among.
 */
const notFound = (routes: readonly Route[], scope: Route | undefined): Handled => {
  const { failures, crossOrigin } = scope ?? {};
  return {
    ...(failures && { failures }),
    ...(crossOrigin && { crossOrigin }),
    handle: ({ request }: Call): Reply => {
      const { pathname } = new URL(request.url);
      const shown = pathname.slice(0, 200);
      const allowed = methodsAt(routes, pathname);
      if (allowed.length === 0) throw new ServiceError("not_found", missing(routes, pathname, shown));
      const allow = allowed.join(", ");
      const reply = (failures?.reply ?? failureOf)(
        new ServiceError(
          "method_not_allowed",
          `${shown} does not answer to ${request.method}, only to ${allow}`,
        ),
      );
      return { ...reply, headers: { ...reply.headers, allow } };
    },
  };
};

const missing = (routes: readonly Route[], pathname: string, shown: string): string => {
  const plain = pathname.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  const isNear = plain !== pathname && methodsAt(routes, plain).length > 0;
  const way = isNear ? `did you mean ${plain.slice(0, 200)}?` : "GET /openapi.json lists what there is";
  return `There is nothing at ${shown}; ${way}`;
};
