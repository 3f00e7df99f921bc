import { z } from "zod";
import { endedJob, Job, JobAnswer, JobFile, JobId, RunTaskInput } from "./job.ts";
import { operation } from "./operation.ts";

export const jobOperations = {
  run_task: operation({
    title: "Submit a task",
    summary: "Submit a task; returns the queued job at once. Call wait_for_job or get_job for its outcome.",
    input: RunTaskInput,
    output: JobAnswer,
    http: { method: "post", path: "/jobs", attach: true },
    // A wait would exceed the time limits of MCP clients; wait_for_job stays within them.
    mcpOmit: ["wait"],
    annotations: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    errors: [
      "invalid_request",
      "invalid_repo_url",
      "invalid_ref",
      "unknown_profile",
      "invalid_profile",
      "attachment_type",
      "worktree_not_found",
      "worktree_not_ready",
      "idempotency_conflict",
      "no_model_credential",
      "sandbox_required",
      "draining",
      "queue_full",
      "disk_full",
      "store_unavailable",
    ],
  }),
  get_job: operation({
    title: "Get a job",
    command: { name: "job", args: ["job_id"], group: "Tasks" },
    summary: "The full job, its output included.",
    input: z.strictObject({ job_id: JobId }),
    output: JobAnswer,
    example: { job: endedJob },
    http: { method: "get", path: "/jobs/{job_id}" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: ["job_not_found"],
  }),
  wait_for_job: operation({
    title: "Wait for a job",
    summary:
      "Wait until the job has ended or waits for an answer, at most timeout seconds, and return it. Call this again while its status is queued or running; answer first where waiting asks a question or has a plan.",
    input: z.strictObject({
      job_id: JobId,
      timeout: z.int().min(1).max(50).default(45).describe("Seconds to wait at most"),
    }),
    output: JobAnswer,
    example: { job: endedJob },
    http: { method: "get", path: "/jobs/{job_id}/wait" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: ["job_not_found"],
  }),
  cancel_job: operation({
    title: "Cancel a job",
    command: { name: "cancel", args: ["job_id"], group: "Tasks" },
    summary: "Cancel a queued or running job; one that has ended stays as it is.",
    input: z.strictObject({ job_id: JobId }),
    output: JobAnswer,
    example: { job: { status: "cancelled", ended_at: "2026-03-02T09:15:02.000Z" } },
    http: { method: "delete", path: "/jobs/{job_id}" },
    annotations: { readOnly: false, destructive: true, idempotent: true },
    errors: ["job_not_found", "store_unavailable"],
  }),
  list_files: operation({
    title: "List the files of a job",
    summary: "The files that the agent left in .svc/out of its worktree.",
    input: z.strictObject({ job_id: JobId }),
    output: z.object({ success: z.literal(true), job_id: Job.shape.id, files: z.array(JobFile) }),
    http: { method: "get", path: "/jobs/{job_id}/files" },
    // An agent has the job's `files`, and cannot be given their content.
    mcp: false,
    annotations: { readOnly: true, destructive: false, idempotent: true },
    errors: ["job_not_found"],
  }),
};
