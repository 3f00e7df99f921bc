import { Hono } from "hono";
import type { Readiness } from "../contract/health.ts";
import type { Handlers } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import { createBoundary } from "./boundary.ts";
import { docsRoutes } from "./docs-routes.ts";
import { eventsRoute } from "./events-route.ts";
import { openapiDocument } from "./openapi.ts";
import { operationRoutes } from "./operation-route.ts";
import { failure } from "./reply.ts";
import { methodsAt, routerPath, type Call, type Route } from "./route.ts";
import { statusRoutes } from "./status-routes.ts";

export type AppDependencies = {
  handlers: Handlers<Operations>;
  events: Pick<EventLog, "read">;
  settings: { host: string; apiKeys: readonly string[] };
  readiness: () => Promise<Readiness>;
  metrics: () => Promise<{ contentType: string; body: string }>;
  service: { name: string; version: string };
  log: Log;
  newRequestId: () => string;
  /** Aborted when the service shuts down. */
  closing: AbortSignal;
  /** How long an event stream may be silent before it sends a ping; default 15 s. */
  pingEveryMs?: number;
  /** What else the service answers to, behind the same checks: the MCP doors. */
  routes?: readonly Route[];
};

/** The REST door: every operation of the registry, and what HTTP adds to them. */
export const createApp = (deps: AppDependencies): Hono => {
  const { handlers, settings, service } = deps;
  let openapi: string | undefined;
  const routes: Route[] = [
    ...statusRoutes(deps),
    ...docsRoutes(() => (openapi ??= openapiDocument({ ...service, keyed: settings.apiKeys.length > 0 }))),
    ...operationRoutes(handlers),
    eventsRoute({ ...deps, getJob: handlers.get_job }),
    ...(deps.routes ?? []),
  ];
  const boundary = createBoundary(deps);
  const app = new Hono();
  for (const route of routes) app.on(route.method, routerPath(route.path), boundary(route));
  return app.notFound(boundary({ handle: (call) => nothingThere(routes, call) }));
};

/** Behind the boundary like everything else: without a key nobody learns which paths there are. */
const nothingThere = (routes: readonly Route[], { request }: Call) => {
  const { pathname } = new URL(request.url);
  const shown = pathname.slice(0, 200);
  const allowed = methodsAt(routes, pathname);
  if (allowed.length > 0) {
    const allow = allowed.join(", ");
    return failure("method_not_allowed", `${shown} does not answer to ${request.method}, only to ${allow}`, {
      allow,
    });
  }
  const plain = pathname.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  const isNear = plain !== pathname && methodsAt(routes, plain).length > 0;
  const way = isNear ? `did you mean ${plain}?` : "GET /openapi.json lists what there is";
  return failure("not_found", `There is nothing at ${shown}; ${way}`);
};
