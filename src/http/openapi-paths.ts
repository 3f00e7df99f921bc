import { z } from "zod";
import type { ZodOpenApiPathsObject, ZodOpenApiResponsesObject } from "zod-openapi";
import { Health, Readiness } from "../contract/health.ts";
import { errorResponses } from "./openapi-errors.ts";

const stage = {
  seq: 1,
  at: "2026-03-02T09:15:00.000Z",
  attempt: 0,
  type: "stage",
  stage: "queued",
  detail: null,
};
export const streamExample = `id: 1\nevent: stage\ndata: ${JSON.stringify(stage)}\n\n`;

/** The stream of a job's events. OpenAPI cannot describe a stream's items: the description names their schema. */
export const eventsPath: ZodOpenApiPathsObject = {
  "/jobs/{job_id}/events": {
    get: {
      operationId: "job_events",
      summary: "Follow a job",
      description:
        "Server-sent events: the job's events from `after` on, those to come included, each with its `seq` as id, its " +
        '`type` as event name and a `JobEvent` as data. The last event is `end` with `{"job": Job}`; a stream that ends ' +
        "without it is to be resumed with `Last-Event-ID`. A `: ping` comment comes every 15 s.",
      requestParams: {
        path: z.object({ job_id: z.string().meta({ description: "UUID of the job" }) }),
        query: z.object({
          after: z.int().min(0).default(0).meta({ description: "Only events with a greater number" }),
        }),
        header: z.object({
          "Last-Event-ID": z.int().min(0).optional().meta({ description: "As `after`, over which it wins" }),
        }),
      },
      responses: {
        "200": {
          description: "The events",
          content: { "text/event-stream": { schema: z.string(), example: streamExample } },
        },
        ...errorResponses(["job_not_found"]),
      },
    },
  },
};

/** Of paths that are open and ask no store. */
const refusals: ZodOpenApiResponsesObject = Object.fromEntries(
  Object.entries(errorResponses([])).filter(([status]) => ["400", "403", "500"].includes(status)),
);

const jsonBody = (schema: z.ZodObject) => ({ content: { "application/json": { schema } } });

export const statusPaths: ZodOpenApiPathsObject = {
  "/health": {
    get: {
      operationId: "health",
      summary: "Whether the process is up",
      security: [],
      responses: { "200": { description: "It is", ...jsonBody(Health) }, ...refusals },
    },
  },
  "/ready": {
    get: {
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
  },
  "/metrics": {
    get: {
      operationId: "metrics",
      summary: "Figures for Prometheus",
      responses: {
        "200": { description: "Text exposition format", content: { "text/plain": { schema: z.string() } } },
        ...errorResponses([]),
      },
    },
  },
};
