import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { Hono, type Context } from "hono";
import { TrieRouter } from "hono/router/trie-router";
import { z } from "zod";
import type { ZodOpenApiResponsesObject } from "zod-openapi";
import { ServiceError, unauthorizedBody } from "../contract/errors.ts";
import { Health, Readiness } from "../contract/instance.ts";
import type { Handlers } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import type { KeptFiles } from "../store/kept-files.ts";
import {
  unauthenticated,
  bearerChallenge,
  createAuthentication,
  createSourceCheck,
  crossOriginHeaders,
  preflightRoutes,
  presentedKeys,
  type Authenticate,
  type Challenge,
  type Served,
} from "./access.ts";
import { changesRoute, type ReadChanges } from "./changes-route.ts";
import { eventsRoute } from "./events-route.ts";
import { filesRoute } from "./files-route.ts";
import { errorResponses, openapiDocument } from "./openapi.ts";
import { operationRoutes } from "./operation-route.ts";
import { pageRoutes } from "./page-routes.ts";
import { checkPathEncoding, maskedTarget } from "./query.ts";
import { failureOf, json, routerPath, serviceErrorOf, type Call, type Reply, type Route } from "./route.ts";
import { createWrongKeys, type WrongKeys } from "./wrong-keys.ts";

export type AppDependencies = {
  handlers: Handlers<Operations>;
  events: Pick<EventLog, "read">;
  changes: ReadChanges;
  openFile: KeptFiles["open"];
  settings: { host: string; apiKeys: readonly string[]; agentMode: boolean; bridgeUrl: string | null };
  readiness: () => Promise<Omit<Readiness, "transcripts">>;
  metrics: () => Promise<{ contentType: string; body: string }>;
  service: { name: string; version: string };
  log: Log;
  newRequestId: () => string;
  closing: AbortSignal;
  /** How long an event stream may be silent before it sends a ping; default 15 s. */
  pingEveryMs?: number;
  /** Further routes behind the same checks: MCP, chat completions. */
  routes?: readonly Route[];
};

type BoundaryDependencies = Pick<AppDependencies, "log" | "newRequestId"> & {
  settings: Served;
  /** Absent: by the keys of the settings. */
  authenticate?: Authenticate;
  /** Absent: `Bearer`. */
  challenge?: Challenge;
  /** Absent: it uses the clock of the system. */
  wrongKeys?: WrongKeys;
};

/** The HTTP server's app: REST routes for every operation of the registry, and the routes that are no operation. */
export const createApp = (deps: AppDependencies): Hono => {
  const { handlers, settings, service } = deps;
  const parts = { agent: settings.agentMode };
  let openapi: string | undefined;
  const describe = (): string =>
    openapiDocument({ ...service, keyed: settings.apiKeys.length > 0, parts, routes });
  const routes: Route[] = [
    ...statusRoutes(deps),
    ...pageRoutes(() => (openapi ??= describe())),
    changesRoute(deps),
    ...operationRoutes(handlers, parts),
    eventsRoute({ ...deps, getJob: handlers.get_job }),
    filesRoute({ ...deps, getJob: handlers.get_job }),
    ...(deps.routes ?? []),
  ];
  return serveRoutes(routes, deps);
};

/** An app that has these routes only. */
export const serveRoutes = (own: readonly Route[], deps: BoundaryDependencies): Hono => {
  const routes = [...own, ...preflightRoutes(own)];
  const boundary = createBoundary(deps);
  // A slash at the end names the same address.
  const app = new Hono({ strict: false });
  for (const route of routes) app.on(route.method, routerPath(route.path), boundary(route));
  const scopes = routes.filter(({ failures }) => failures !== undefined);
  const methodsAt = methodsOf(routes);
  return app.notFound((context) => {
    const scope = scopes.find(({ failures }) => context.req.path.startsWith(failures?.under ?? "/"));
    return boundary(notFound(methodsAt, scope))(context);
  });
};

type MethodsAt = (path: string) => string[];

/** Finds the methods for the `Allow` header. None: no route has this path. */
const methodsOf = (routes: readonly Route[]): MethodsAt => {
  const router = new TrieRouter<string>();
  for (const { path, method, refusing } of routes)
    if (refusing !== true) router.add("ALL", routerPath(path), method.toUpperCase());
  return (path) => {
    const methods = router.match("ALL", path)[0].map(([method]) => method);
    return methods.includes("GET") ? [...methods, "HEAD"] : methods;
  };
};

type Handled = Pick<
  Route,
  "open" | "authenticate" | "crossOrigin" | "anyOrigin" | "anyHost" | "failures" | "handle"
>;

/**
 * Every request passes through: source check, authentication, the route, errors turned into answers, one log line. It
 * wraps the route's function, because middleware would make the router compose handlers for each request.
 */
const createBoundary = ({ settings, log, newRequestId, ...access }: BoundaryDependencies) => {
  const { authenticate = createAuthentication(settings.apiKeys), challenge = bearerChallenge } = access;
  const { wrongKeys = createWrongKeys() } = access;
  const checkSource = createSourceCheck(settings);

  const answer = async (route: Handled, context: Context, own: Pick<Call, "requestId" | "note">) => {
    const request = context.req.raw;
    const { incoming, outgoing }: Partial<HttpBindings> = context.env ?? {};
    const disconnect = (): void => void outgoing?.destroy();
    const wrongKey = (): Promise<void> =>
      wrongKeys(incoming?.socket.remoteAddress ?? "", { close: disconnect, signal: request.signal });
    const holder = await (route.authenticate ?? authenticate)(request);
    // Open routes as well: some tell more to who has a key.
    if (holder === null && presentedKeys(request).length > 0) await wrongKey();
    const identity = holder ?? (route.open === true ? unauthenticated : null);
    if (identity === null) throw new ServiceError("unauthorized", unauthorizedBody.error);
    checkPathEncoding(request.url);
    const path = context.req.param();
    return route.handle({ request, context, ...identity, ...own, path, wrongKey, disconnect });
  };

  const refusal = ({ failures }: Handled, request: Request, error: unknown, requestId: string): Reply => {
    // The caller has disconnected and its work was stopped: this is no failure of the service.
    if (!(error instanceof ServiceError) && request.signal.aborted)
      return { status: 499, headers: {}, body: null };
    const failure = serviceErrorOf(error, { requestId, log });
    const reply = (failures?.reply ?? failureOf)(failure);
    if (failure.status !== 401 && failure.scope === undefined) return reply;
    const header = { "www-authenticate": challenge(request, failure.scope) };
    return { ...reply, headers: { ...reply.headers, ...header } };
  };

  return (route: Handled) =>
    async (context: Context): Promise<Response> => {
      const started = performance.now();
      const requestId = newRequestId();
      const { raw: request } = context.req;
      const common: Record<string, string> = {
        "x-content-type-options": "nosniff",
        "x-request-id": requestId,
      };
      let line: Record<string, unknown> | undefined = {};
      const note = (more: Record<string, unknown>): void => {
        if (line !== undefined) Object.assign(line, more);
        // A stream goes on after its request was logged.
        else log.info({ ...more, request_id: requestId }, "of a request answered in a stream");
      };
      let reply: Reply | Response;
      try {
        checkSource(request.headers, route);
        if (route.crossOrigin === true) Object.assign(common, crossOriginHeaders(request.headers));
        reply = await answer(route, context, { requestId, note });
      } catch (error) {
        reply = refusal(route, request, error, requestId);
      }
      const { status } = reply;
      const ms = Math.round((performance.now() - started) * 10) / 10;
      const asked = { method: request.method, path: maskedTarget(request.url) };
      // Probes and the telemetry of agents come every few seconds.
      const isFrequent = route.open === true || route.authenticate !== undefined;
      const level = isFrequent && status < 400 ? "debug" : "info";
      log[level]({ ...asked, status, ms, request_id: requestId, ...line }, "request");
      line = undefined;
      if (!(reply instanceof Response))
        return sent({ ...reply, headers: { ...common, ...reply.headers } }, context);
      for (const [name, value] of Object.entries(common)) reply.headers.set(name, value);
      return reply;
    };
};

/** Streams are written to the connection directly. */
const sent = ({ status, headers, body }: Reply, { env }: Context): Response => {
  if (typeof body !== "function") return new Response(body, { status, headers });
  const { outgoing } = env as HttpBindings;
  outgoing.writeHead(status, headers);
  outgoing.flushHeaders();
  void body(outgoing);
  return RESPONSE_ALREADY_SENT;
};

/** Answers where no route matches, behind the boundary: a caller without a key does not learn which paths exist. */
const notFound = (methodsAt: MethodsAt, scope: Route | undefined): Handled => {
  const { failures, crossOrigin } = scope ?? {};
  return {
    ...(failures && { failures }),
    ...(crossOrigin && { crossOrigin }),
    handle: ({ request, context }: Call): Reply => {
      const { pathname } = new URL(request.url);
      const shown = pathname.slice(0, 200);
      const allow = methodsAt(context.req.path).join(", ");
      if (allow === "") throw new ServiceError("not_found", missing(methodsAt, pathname, shown));
      const refusal = `${shown} does not answer to ${request.method}, only to ${allow}`;
      const reply = (failures?.reply ?? failureOf)(new ServiceError("method_not_allowed", refusal));
      return { ...reply, headers: { ...reply.headers, allow } };
    },
  };
};

const missing = (methodsAt: MethodsAt, pathname: string, shown: string): string => {
  const plain = pathname.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  const isNear = plain !== pathname && methodsAt(plain).length > 0;
  const way = isNear ? `did you mean ${plain.slice(0, 200)}?` : "GET /openapi.json lists what there is";
  return `There is nothing at ${shown}; ${way}`;
};

/** The failures of open paths that use no store. */
const refusals: ZodOpenApiResponsesObject = Object.fromEntries(
  Object.entries(errorResponses([])).filter(([status]) => ["400", "403", "500"].includes(status)),
);

const jsonBody = (schema: z.ZodObject) => ({ content: { "application/json": { schema } } });

export const statusRoutes = ({ service, settings, readiness, metrics }: AppDependencies): Route[] => {
  const health: Health = { status: "ok", service: service.name };
  return [
    {
      method: "get",
      path: "/health",
      open: true,
      openapi: {
        operationId: "health",
        summary: "Whether the process is up",
        security: [],
        responses: { "200": { description: "It is", ...jsonBody(Health) }, ...refusals },
      },
      handle: () => json(200, health),
    },
    {
      method: "get",
      path: "/ready",
      open: true,
      openapi: {
        operationId: "ready",
        summary: "Whether the service accepts new jobs",
        security: [],
        responses: {
          "200": { description: "It does", ...jsonBody(Readiness) },
          ...refusals,
          "503": {
            description:
              "It does not; `reasons` says why. Where keys are set, only callers with a key see them",
            ...jsonBody(Readiness),
          },
        },
      },
      handle: async ({ principal }) => {
        const found = { ...(await readiness()), transcripts: settings.bridgeUrl !== null };
        const reasons = found.ready ? [] : ["Send a key to see the reasons"];
        const state = principal === unauthenticated.principal ? { ...found, reasons, checks: [] } : found;
        return state.ready ? json(200, state) : json(503, state, { "retry-after": "5" });
      },
    },
    {
      method: "get",
      path: "/metrics",
      openapi: {
        operationId: "metrics",
        summary: "Metrics for Prometheus",
        responses: {
          "200": { description: "Text exposition format", content: { "text/plain": { schema: z.string() } } },
          ...errorResponses([]),
        },
      },
      handle: async () => {
        const { contentType, body } = await metrics();
        return { status: 200, headers: { "content-type": contentType, "cache-control": "no-store" }, body };
      },
    },
  ];
};
