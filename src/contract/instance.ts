import { z } from "zod";
import { Instant } from "./job.ts";
import { operation } from "./operation.ts";

export const Instance = z
  .object({
    name: z.string().meta({ example: "build-1" }),
    version: z.string().meta({ example: "1.0.0" }),
    started_at: Instant.meta({ example: "2026-03-02T08:00:00.000Z" }),
    running: z
      .int()
      .meta({ description: "Jobs that it runs now, by its last word, which may be seconds old", example: 3 }),
    max_parallel_jobs: z.int().meta({ example: 3 }),
    turns: z.int().meta({
      description: "Turns of agent mode under way, by its last word, which may be seconds old",
      example: 2,
    }),
    draining: z.boolean().meta({ description: "It takes no new jobs", example: false }),
  })
  .meta({ id: "Instance" });
export type Instance = z.infer<typeof Instance>;

const Overview = z.object({
  queue: z.object({
    waiting: z.int().meta({ example: 2 }),
    running: z.int().meta({ example: 3 }),
    oldest_wait_seconds: z.number().nullable().meta({
      description: "How long the job that waits longest has waited; null: none waits",
      example: 41.5,
    }),
  }),
  lost: z.int().meta({ description: "Jobs that failed with their instance so far", example: 0 }),
  recovered: z
    .int()
    .meta({ description: "Jobs that were queued again after the loss of their instance so far", example: 1 }),
  instances: z.array(Instance).meta({ description: "Those that are alive, by name" }),
});
/** The instances that share the store, and what they have before them. */
export type Overview = z.infer<typeof Overview>;

export const instanceOperations = {
  list_instances: operation({
    name: "list_instances",
    title: "List instances",
    summary:
      "The instances of the service that share the queue, with what each runs, and how many jobs wait and for how long.",
    input: z.strictObject({}),
    output: z.object({ success: z.literal(true), count: z.int().meta({ example: 1 }), ...Overview.shape }),
    http: { method: "get", path: "/instances" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: [],
  }),
};
