import { z } from "zod";
import { Job, JobId, Message, MessageWhen, type RunTaskInput } from "./job.ts";
import { operation } from "./operation.ts";

/** Most messages of a job. */
export const maxMessages = 100;

const bytes = new TextEncoder();

export const MessageInput = z.strictObject({
  job_id: JobId,
  text: z
    .string()
    .refine((text) => text.trim() !== "", "must not be blank")
    .refine((text) => bytes.encode(text).length <= 32_768, "must have at most 32,768 bytes")
    .meta({ description: "What to say to the agent, in plain words", example: "Keep the old endpoint, too" }),
  when: MessageWhen.default("next").describe(
    "next: between two steps of its work; now: it drops what it does at this moment; later: when it is done with the rest",
  ),
});
export type MessageInput = z.infer<typeof MessageInput>;

export const TakeBackInput = z.strictObject({
  job_id: JobId,
  message_id: z.string().max(200).describe("The id of the message, or at least eight digits it begins with"),
});
export type TakeBackInput = z.infer<typeof TakeBackInput>;

/** Input that gives the agent another task in the job's session, worktree and branch. */
export const continueInput = (job: Job, session_id: string, task: string) => {
  const { model, timeout_seconds, max_budget_usd, max_turns, checks, must_pass } = job.options;
  const options = { model, timeout_seconds, max_budget_usd, max_turns, checks, must_pass };
  return {
    task,
    session_id,
    profile: job.profile,
    allow_hosts: job.allow_hosts,
    options,
  } satisfies Partial<z.input<typeof RunTaskInput>>;
};

export const messageOperations = {
  message_job: operation({
    title: "Say something to a job's agent",
    summary:
      "Say something to the agent of a queued or running job, without a stop. One that has ended is continued by another job, in the same session.",
    input: MessageInput,
    output: z.object({
      success: z.literal(true),
      message: Message.optional().describe("Absent: the job had ended"),
      continued: z.literal(true).optional(),
      job: Job.optional().describe("The job that continues the one that had ended"),
    }),
    http: { method: "post", path: "/jobs/{job_id}/messages" },
    annotations: { readOnly: false, destructive: true, idempotent: false },
    errors: [
      "invalid_request",
      "job_not_found",
      "idempotency_conflict",
      "nothing_to_continue",
      "store_unavailable",
    ],
  }),
  take_back_message: operation({
    title: "Take a message back",
    summary:
      "Take back a message that the agent has not taken up. It stays queued as long as the agent has not confirmed that.",
    input: TakeBackInput,
    output: z.object({ success: z.literal(true), message: Message }),
    http: { method: "delete", path: "/jobs/{job_id}/messages/{message_id}" },
    mcp: false,
    annotations: { readOnly: false, destructive: true, idempotent: true },
    errors: ["job_not_found", "message_not_found", "message_taken", "store_unavailable"],
  }),
};

export type MessageAnswer = z.infer<(typeof messageOperations)["message_job"]["output"]>;
