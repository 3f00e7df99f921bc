import { Hono } from "hono";
import type { Readiness } from "../contract/health.ts";
import type { Handlers } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import { createBoundary } from "./boundary.ts";
import { docsRoutes } from "./docs-routes.ts";
import { eventsRoute } from "./events-route.ts";
import { nothingThere } from "./nothing-there.ts";
import { openapiDocument } from "./openapi.ts";
import { operationRoutes } from "./operation-route.ts";
import { routerPath, type Route } from "./route.ts";
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
    return boundary(nothingThere(routes, scope))(context);
  });
};
