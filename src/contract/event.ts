import { z } from "zod";
import { CheckEvent } from "./check.ts";
import { Denied, Instant, Message, StageName, Usage } from "./job.ts";
import { SetupEvent } from "./setup.ts";

/**
 * The one event vocabulary. An agent adapter yields `AgentEvent`s. A job's event log adds stages and warnings and numbers
 * all of them (`JobEvent`). `/jobs/{id}/events`, the live view of the CLI and chat deltas are views of these.
 */
export const AgentEvent = z.discriminatedUnion("type", [
  /** The agent has started and reported its session. Once per process. */
  z.object({
    type: z.literal("started"),
    session_id: z.string(),
    model: z.string().nullable(),
    agent_version: z.string().nullable(),
  }),
  /** A piece of thinking, as the model produces it. The pieces of one `block` make up its text. */
  z.object({ type: z.literal("thinking"), block: z.int(), text: z.string() }),
  /** A piece of visible text, as the model produces it. */
  z.object({ type: z.literal("text"), block: z.int(), text: z.string() }),
  /** A thinking or text block is complete. */
  z.object({ type: z.literal("block_end"), block: z.int() }),
  /** The model begins a tool call. Writing its input may take long; `tool_use` has all of it. */
  z.object({ type: z.literal("tool_start"), id: z.string(), name: z.string() }),
  /** A tool call, when its input is complete. `parent`: id of the tool call that started the subagent which made this one. */
  z.object({
    type: z.literal("tool_use"),
    id: z.string(),
    name: z.string(),
    input: z.unknown(),
    parent: z.string().nullable(),
  }),
  z.object({
    type: z.literal("tool_result"),
    tool_use_id: z.string(),
    content: z.string(),
    is_error: z.boolean(),
    parent: z.string().nullable(),
  }),
  /** The agent waits before it calls the model again; `by` the service: its next process does. */
  z.object({
    type: z.literal("retry"),
    /** Counts from 1 to `max_retries`. */
    retry: z.int(),
    max_retries: z.int(),
    delay_ms: z.number(),
    status: z.int().nullable(),
    error: z.string(),
    by: z.literal("service").optional(),
  }),
  z.object({ type: z.literal("rate_limit"), status: z.string(), resets_at: Instant.nullable() }),
  /** Tokens of one call of the model, when its answer is complete. Subagents' calls are not told. */
  z.object({ type: z.literal("usage"), usage: Usage }),
  /** The agent's report of the outcome. The last one counts; `usage` is that of the calls since the one before it. */
  z.object({
    type: z.literal("result"),
    ok: z.boolean(),
    text: z.string(),
    subtype: z.string(),
    api_status: z.int().nullable(),
    session_id: z.string().nullable(),
    num_turns: z.int().nullable(),
    cost_usd: z.number().nullable(),
    usage: Usage.nullable(),
    duration_ms: z.int().nullable(),
  }),
  /** The process and all its children have ended. Always the last event of a run. */
  z.object({ type: z.literal("exited"), exit_code: z.int().nullable(), signal: z.string().nullable() }),
  /** The sandbox refused something: at the first refusal in a turn, and once more at the turn's end. */
  Denied.extend({ type: z.literal("denied"), at_end: z.boolean(), message: z.string() }),
  /** The agent has taken up what the user said meanwhile. */
  Message.omit({ at: true }).extend({ type: z.literal("message") }),
  /** Something was left out or went differently than asked. */
  z.object({
    type: z.literal("warning"),
    message: z.string(),
    /** A block of text or thinking that the following events replace: the model tries again. */
    dropped_block: z.int().optional(),
  }),
]);
export type AgentEvent = z.infer<typeof AgentEvent>;

export const StageEvent = z.object({
  type: z.literal("stage"),
  stage: StageName,
  detail: z.string().nullable(),
});
export type StageEvent = z.infer<typeof StageEvent>;

/** An entry of a job's event log. `seq` counts from 1 without gaps and is the SSE event id. */
export const JobEvent = z
  .object({ seq: z.int().min(1), at: Instant, attempt: z.int() })
  .and(z.union([StageEvent, SetupEvent, CheckEvent, AgentEvent]))
  .meta({ id: "JobEvent" });
export type JobEvent = z.infer<typeof JobEvent>;

/** Whether the agent said or did it, and not the service. */
export const isAgentEvent = <Event extends { type: JobEvent["type"] }>(
  event: Event,
): event is Exclude<Event, { type: (StageEvent | SetupEvent | CheckEvent)["type"] }> =>
  event.type !== "stage" && event.type !== "setup" && !event.type.startsWith("check_");
