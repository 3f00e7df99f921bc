import { z } from "zod";
import type { ZodOpenApiResponsesObject } from "zod-openapi";
import { Health, Readiness } from "../contract/health.ts";
import { anonymous } from "./access.ts";
import { errorResponses } from "./openapi-errors.ts";
import { json } from "./reply.ts";
import type { Route } from "./route.ts";

type Dependencies = {
  service: { name: string };
  readiness: () => Promise<Readiness>;
  metrics: () => Promise<{ contentType: string; body: string }>;
};

/** Of paths that are open and ask no store. */
const refusals: ZodOpenApiResponsesObject = Object.fromEntries(
  Object.entries(errorResponses([])).filter(([status]) => ["400", "403", "500"].includes(status)),
);

const jsonBody = (schema: z.ZodObject) => ({ content: { "application/json": { schema } } });

/** How the service is, for those who watch over it. */
export const statusRoutes = ({ service, readiness, metrics }: Dependencies): Route[] => {
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
        summary: "Whether new jobs are taken",
        security: [],
        responses: {
          "200": { description: "They are", ...jsonBody(Readiness) },
          ...refusals,
          "503": {
            description: "They are not: `reasons` says why, where keys are set only to callers with one",
            ...jsonBody(Readiness),
          },
        },
      },
      handle: async ({ principal }) => {
        const found = await readiness();
        const isShown = found.ready || principal !== anonymous;
        const state = isShown ? found : { ready: false, reasons: ["Ask with a key to be told why"] };
        const reply = json(state.ready ? 200 : 503, state);
        return state.ready ? reply : { ...reply, headers: { ...reply.headers, "retry-after": "5" } };
      },
    },
    {
      method: "get",
      path: "/metrics",
      openapi: {
        operationId: "metrics",
        summary: "Figures for Prometheus",
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
