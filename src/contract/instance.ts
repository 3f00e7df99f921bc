import { z } from "zod";
import { Instant } from "./job.ts";
import { operation } from "./operation.ts";

export const Instance = z
  .object({
    name: z.string(),
    version: z.string(),
    started_at: Instant,
    running: z
      .int()
      .meta({ description: "Jobs that it runs now, by its last word, which may be seconds old" }),
    max_parallel_jobs: z.int(),
    turns: z.int().meta({
      description: "Turns of agent mode under way, by its last word, which may be seconds old",
    }),
    draining: z.boolean().meta({ description: "It takes no new jobs" }),
  })
  .meta({ id: "Instance" });
export type Instance = z.infer<typeof Instance>;

const Overview = z.object({
  queue: z.object({
    waiting: z.int(),
    running: z.int(),
    oldest_wait_seconds: z
      .number()
      .nullable()
      .meta({ description: "How long the job that waits longest has waited; null: none waits" }),
  }),
  lost: z.int().meta({ description: "Jobs that failed with their instance so far" }),
  recovered: z
    .int()
    .meta({ description: "Jobs that were queued again after the loss of their instance so far" }),
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
    output: z.object({ success: z.literal(true), count: z.int(), ...Overview.shape }),
    http: { method: "get", path: "/instances" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: [],
  }),
};
