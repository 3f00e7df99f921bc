import { z } from "zod";
import { Instant, Usage } from "./job.ts";
import { operation } from "./operation.ts";

const completionStatuses = ["queued", "running", "completed", "failed", "cancelled"] as const;
export const CompletionStatus = z
  .enum(completionStatuses)
  .meta({ id: "CompletionStatus", example: "completed" });
export type CompletionStatus = z.infer<typeof CompletionStatus>;

export const isCompletionFinal = (status: CompletionStatus): boolean =>
  status !== "queued" && status !== "running";

const result = "The nightly build fails since the clock change; the fix is on a branch.";

export const Completion = z
  .object({
    uuid: z.string().meta({ example: "ticket-4711" }),
    status: CompletionStatus,
    result: z.string().nullable().meta({ description: "The agent's answer", example: result }),
    session_id: z.string().nullable().meta({ example: "8c1f0d6e-51f3-4f0e-9d52-7be0f9f5c0aa" }),
    cost_usd: z.number().nullable().meta({ example: 0.018 }),
    cost_estimated: z.boolean().meta({
      example: false,
      description: "Whether cost_usd was reckoned from tokens, for want of a result",
    }),
    duration_ms: z.int().nullable().meta({ example: 21_400 }),
    num_turns: z.int().nullable().meta({ example: 4 }),
    is_error: z.boolean().meta({ example: false }),
    created_at: Instant,
    started_at: Instant.nullable().meta({ example: "2026-03-02T09:15:00.020Z" }),
    ended_at: Instant.nullable().meta({ example: "2026-03-02T09:15:21.420Z" }),
    usage: Usage.nullable(),
    model: z.string().nullable().meta({ example: "sonnet" }),
    error: z.string().nullable().describe("What went wrong, and what to do; null: nothing"),
    error_code: z.string().nullable().describe("Stable identifier of the failure, snake_case"),
    meta: z.string().meta({ description: "As given by the caller", example: "{}" }),
  })
  .meta({ id: "Completion" });
export type Completion = z.infer<typeof Completion>;

/** Ids become paths and keys. An id of another form is unknown. */
export const completionIdForm = /^[A-Za-z0-9\-_.:]{1,200}$/;
const CompletionId = z.string().describe("The uuid that the caller submitted");

const Meta = z
  .string()
  .max(10_000)
  .default("{}")
  .refine(isJsonObject, "must be a JSON object, as a string")
  .describe("Data of the caller's own, a JSON object as a string; returned with the record");

export const completionOperations = {
  agent_completions: operation({
    title: "Ask the agent",
    summary:
      "Send the loaded agent a message and get its answer. The same uuid continues its conversation, unless stateless. With wait false, fetch the answer with get_completion.",
    input: z.strictObject({
      message: z
        .string()
        .min(1)
        .max(1_000_000)
        .meta({ description: "Task or prompt", example: "Why does the nightly build fail?" }),
      uuid: z
        .string()
        .regex(completionIdForm, "must be 1 to 200 letters, digits and -_.:")
        .meta({ description: "Correlation id, chosen by the caller", example: "ticket-4711" }),
      wait: z.boolean().default(true).describe("Answer only when the agent is done"),
      stateless: z.boolean().default(false).describe("Use a new session and resume none"),
      model: z.string().max(200).default("").describe("Empty: the agent's own"),
      max_turns: z.int().min(0).max(10_000).default(0).describe("0: the agent's own limit"),
      system_prompt: z
        .string()
        .max(1_000_000)
        .default("")
        .describe(
          "Replaces the text that the agent's package appends to the CLI's system prompt; empty: that text",
        ),
      effort: z.enum(["", "low", "medium", "high"]).default(""),
      timeout: z.int().min(0).max(604_800).default(0).describe("Seconds; 0: the agent's own limit"),
      meta: Meta,
    }),
    output: z.object({
      success: z.boolean().meta({ example: true }),
      status: CompletionStatus,
      uuid: Completion.shape.uuid,
      poll_url: z.string().nullable().describe("Where the answer will be; null: this is the answer"),
      result: z.string().nullable().meta({ example: result }),
      session_id: Completion.shape.session_id,
      cost_usd: Completion.shape.cost_usd,
      duration_ms: Completion.shape.duration_ms,
      num_turns: Completion.shape.num_turns,
      is_error: Completion.shape.is_error,
      usage: Usage.nullable(),
      error: z.string().nullable(),
      code: z.string().nullable(),
      completion: Completion.nullable(),
    }),
    example: { completion: {} },
    http: {
      method: "post",
      path: "/completions",
      deprecated: true,
      status: ({ success, status }) => (status === "queued" ? 202 : success === true ? 200 : 500),
    },
    annotations: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    part: "agent",
    errors: ["model_not_found", "completion_running", "capacity_full", "no_model_credential", "draining"],
  }),
  get_completion: operation({
    title: "Get a completion",
    summary: "The record of a completion: its status and, when it has ended, the answer.",
    input: z.strictObject({ uuid: CompletionId }),
    output: z.object({ success: z.literal(true), completion: Completion }),
    http: { method: "get", path: "/completions/{uuid}" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    part: "agent",
    errors: ["completion_not_found"],
  }),
  list_completions: operation({
    title: "List completions",
    summary: "Completions, newest first.",
    input: z.strictObject({
      limit: z.int().min(1).max(1000).default(20),
      status: z.enum(["all", ...completionStatuses]).default("all"),
    }),
    output: z.object({
      success: z.literal(true),
      count: z.int().meta({ example: 1 }),
      completions: z.array(Completion),
    }),
    http: { method: "get", path: "/completions" },
    annotations: { readOnly: true, destructive: false, idempotent: true },
    part: "agent",
    errors: [],
  }),
  cancel_completion: operation({
    title: "Cancel a completion",
    summary: "Cancel a queued or running completion; one that has ended is returned unchanged.",
    input: z.strictObject({ uuid: CompletionId }),
    output: z.object({ success: z.literal(true), completion: Completion }),
    http: { method: "delete", path: "/completions/{uuid}" },
    annotations: { readOnly: false, destructive: true, idempotent: true },
    part: "agent",
    errors: ["completion_not_found"],
  }),
};

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
