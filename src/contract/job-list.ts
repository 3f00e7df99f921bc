import { z } from "zod";
import { endedJob, Job, JobStatus, Outcome } from "./job.ts";
import { operation } from "./operation.ts";

const isInstant = (text: string): boolean =>
  text === "" ||
  [z.iso.date(), z.iso.datetime({ offset: true })].some((form) => form.safeParse(text).success);

const ListJobsInput = z.strictObject({
  limit: z.int().min(1).max(1000).default(20).describe("How many at most"),
  status: z
    .union([z.enum(["", "all", "active"]), JobStatus])
    .default("")
    .describe("Only this status; active: queued or running; empty or all: every status"),
  outcome: z
    .union([z.enum([""]), Outcome])
    .default("")
    .describe("Only jobs of which this came; empty: all"),
  session_id: z.string().max(200).default("").meta({
    description: "Only jobs of this agent session: that ran it, or wait to resume it; empty: all",
    example: "5a4d7a7e-0b44-4a3c-8a1e-6a5f6d8c2f11",
  }),
  repo_url: z.string().max(2048).default("").meta({
    description:
      "Only jobs of this repository, however its URL is written; acme/app means that name on any host",
    example: "https://github.com/acme/app",
  }),
  profile: z
    .string()
    .max(200)
    .default("")
    .meta({ description: "Only jobs with this profile", example: "code" }),
  since: z
    .string()
    .refine(isInstant, "must be a date such as 2026-03-02 or an instant such as 2026-03-02T09:15:00Z")
    .default("")
    .meta({
      description: "Only jobs submitted at this instant or later; a date begins in UTC",
      example: "2026-03-02",
    }),
  q: z.string().max(1000).default("").meta({
    description: "Only jobs whose task has each of these words, as parts of words too, in any case",
    example: "date test",
  }),
  cursor: z.string().max(200).default("").describe("next_cursor of the previous page"),
});
export type ListJobsInput = z.infer<typeof ListJobsInput>;

/** A change of the jobs, for those who show them. */
export const JobChange = z
  .discriminatedUnion("type", [
    /** A job that is new, or in another state, stage or place. */
    z.object({ type: z.literal("job"), job: Job }),
    z.object({ type: z.literal("removed"), id: z.string() }),
    /** More has changed than is told: read the list again. */
    z.object({ type: z.literal("behind") }),
  ])
  .meta({ id: "JobChange" });
export type JobChange = z.infer<typeof JobChange>;

export const jobListOperations = {
  list_jobs: operation({
    title: "List jobs",
    command: { name: "jobs", group: "Tasks" },
    summary:
      "Jobs, newest first, optionally of one status, outcome, repository, profile, agent session, time or with words in the task.",
    input: ListJobsInput,
    output: z.object({
      success: z.literal(true),
      count: z.int().meta({ example: 1 }),
      jobs: z.array(Job),
      next_cursor: z
        .string()
        .nullable()
        .describe(
          "Cursor of the next page; null: there is none. With outcome, repo_url, profile or q a page reads 2,000 jobs at most and may have fewer than limit",
        ),
    }),
    example: { jobs: [endedJob] },
    http: { method: "get", path: "/jobs" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: ["invalid_request"],
  }),
};
