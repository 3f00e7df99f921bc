import { z } from "zod";
import { companionTargets } from "./companion.ts";
import { Instant } from "./job.ts";
import { operation } from "./operation.ts";

export const Instance = z
  .object({
    name: z.string().meta({ example: "build-1" }),
    version: z.string().meta({ example: "1.0.0" }),
    started_at: Instant.meta({ example: "2026-03-02T08:00:00.000Z" }),
    running: z
      .int()
      .meta({ description: "Jobs that it runs; its last report may be seconds old", example: 3 }),
    max_parallel_jobs: z.int().meta({ example: 3 }),
    turns: z.int().meta({
      description: "Turns of agent mode that it runs; its last report may be seconds old",
      example: 2,
    }),
    draining: z.boolean().meta({ description: "It accepts no new jobs", example: false }),
    address: z.string().nullable().meta({
      description: "URL at which others can reach it; null: unknown",
      example: "http://build-1.internal:8200",
    }),
    agent_mode: z.boolean().meta({ description: "It answers chats", example: false }),
  })
  .meta({ id: "Instance" });
export type Instance = z.infer<typeof Instance>;

const Overview = z.object({
  queue: z.object({
    waiting: z.int().meta({ example: 2 }),
    running: z.int().meta({ example: 3 }),
    oldest_wait_seconds: z.number().nullable().meta({
      description: "How long the oldest queued job has waited; null: none is queued",
      example: 41.5,
    }),
  }),
  lost: z.int().meta({ description: "Jobs that failed so far because their instance was lost", example: 0 }),
  recovered: z
    .int()
    .meta({ description: "Jobs that were queued again so far because their instance was lost", example: 1 }),
  limits: z
    .array(
      z.object({
        credential: z.string().meta({
          description: "The first 12 digits of its SHA-256",
          example: "9f86d081884c",
        }),
        until: Instant.describe("When the first of its jobs goes on"),
        jobs: z.int().meta({ description: "Jobs that are parked until then or later", example: 2 }),
      }),
    )
    .describe("Credentials of the model whose usage limit is reached"),
  instances: z.array(Instance).describe("Live instances, by name"),
});
/** The instances that share the store, and their queue. */
export type Overview = z.infer<typeof Overview>;

export const instanceOperations = {
  list_instances: operation({
    title: "List instances",
    command: { name: "instances", group: "Service" },
    summary:
      "The instances that share the queue, what each one runs, how many jobs are queued and for how long.",
    input: z.strictObject({}),
    output: z.object({
      success: z.literal(true),
      count: z.int().meta({ example: 1 }),
      ...Overview.shape,
      answered_by: z.string().meta({ description: "The instance that answers", example: "build-1" }),
    }),
    http: { method: "get", path: "/instances" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: [],
  }),
};

/** Body of `GET /health`: the process is up. Public. */
export const Health = z.object({ status: z.literal("ok"), service: z.string() }).meta({ id: "Health" });
export type Health = z.infer<typeof Health>;

/** What one part of the service is like. */
export const Check = z
  .object({
    name: z.string(),
    status: z.enum(["ok", "warning", "fault"]).describe("fault: new jobs are refused, or fail"),
    message: z.string().describe("What was found, and what to do when it is not ok"),
  })
  .meta({ id: "Check" });
export type Check = z.infer<typeof Check>;

/** Body of `GET /ready`: 200 when the service accepts new jobs, else 503. Public. */
export const Readiness = z
  .object({
    ready: z.boolean(),
    reasons: z.array(z.string()).describe("Why it is not ready, a sentence each"),
    checks: z
      .array(Check)
      .describe("Each thing that was looked at. Where keys are set, only callers with a key see them"),
    companions: z
      .array(
        z.object({
          target: z.enum(companionTargets),
          age_seconds: z.number().nullable().describe("Since the last fetch that succeeded; null: none has"),
        }),
      )
      .describe("The companion repositories that this instance fetches"),
    transcripts: z.boolean().describe("Whether `POST /transcripts/mcp` reaches a transcript service"),
  })
  .meta({ id: "Readiness" });
export type Readiness = z.infer<typeof Readiness>;

/** Whether the service takes jobs, in the words of `/ready`, shell and page. */
export const readinessText = ({ ready, reasons }: Pick<Readiness, "ready" | "reasons">): string =>
  ready ? "New jobs are accepted" : `New jobs are refused: ${reasons.join("; ")}`;
