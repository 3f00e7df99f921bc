import { z } from "zod";
import { tool } from "./transcript-tool.ts";

/** The tools that hand work to the job orchestrator. */

const DispatchJob = z.object({
  job_id: z.string(),
  status: z.enum(["running", "completed", "failed"]),
  started_at: z.string(),
  completed_at: z.string().nullable(),
  task: z.string(),
  project: z.string(),
  context_session: z.string().nullable(),
  resumed_session: z.string().nullable(),
  prompt_length: z.int(),
  output: z.string(),
  error: z.string().nullable(),
  exit_code: z.int().nullable(),
  duration_ms: z.int().nullable(),
  timed_out: z.boolean(),
  session_id: z.string().nullable(),
});

export const dispatchOperations = {
  dispatch_task: tool({
    title: "Dispatch a task",
    summary: "Submit a task to the job orchestrator, with the context of a session or as its continuation.",
    input: {
      task_description: z.string().min(1).max(100_000).describe("The task, in plain words"),
      project: z.string().max(4096).default("").describe("URL or path of the git repository"),
      session_id: z.string().max(200).default("").describe("Session whose last entries are given as context"),
      resume_session_id: z.string().max(200).default("").describe("Session to continue"),
      command: z
        .enum(["default", "thinkhard", "ultrathink"])
        .default("default")
        .describe("How hard the agent thinks"),
      context_turns: z.int().min(1).max(200).default(10).describe("How many entries of session_id are given"),
    },
    output: {
      dispatched: z.literal(true),
      background: z.literal(true),
      job_id: z.string(),
      status: z.enum(["running", "completed", "failed"]),
      context_session: z.string().nullable(),
      resumed_session: z.string().nullable(),
      prompt_length: z.int(),
    },
    annotations: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    scope: "dispatch",
    errors: ["session_not_found", "orchestrator_unavailable"],
  }),
  get_dispatch_job: tool({
    title: "Get a dispatched job",
    summary: "State and output of a job that dispatch_task submitted.",
    input: { job_id: z.string().describe("Id of the job") },
    output: DispatchJob.shape,
    scope: "dispatch",
    errors: ["job_not_found", "orchestrator_unavailable"],
  }),
};
