import { cutFront } from "../lib/tail-buffer.ts";
import { toCompletion, type CompletionRecord } from "../store/completion-store.ts";
import type { TurnEnd } from "./follow-turn.ts";

/* What a completion's record says from its submission to its end, and the answers made of it. */

export const newRecord = (
  { uuid, meta }: Pick<CompletionRecord, "uuid" | "meta">,
  model: string | null,
  { podName, epoch }: { podName: string; epoch: string },
  now: Date,
): CompletionRecord => ({
  uuid,
  status: "queued",
  result: null,
  session_id: null,
  cost_usd: null,
  cost_estimated: false,
  duration_ms: null,
  num_turns: null,
  is_error: false,
  created_at: now.toISOString(),
  started_at: null,
  ended_at: null,
  usage: null,
  model,
  error: null,
  error_code: null,
  meta,
  pod_name: podName,
  epoch,
});

/** The answer to a completion with `wait`. */
export const answerOf = (record: CompletionRecord) => {
  const { uuid, status, result, session_id, cost_usd, duration_ms, num_turns, is_error, usage, error } =
    record;
  const facts = { uuid, status, result, session_id, cost_usd, duration_ms, num_turns, is_error, usage };
  const [success, code] = [status === "completed", record.error_code];
  return { success, ...facts, error, code, poll_url: null, completion: toCompletion(record) };
};

/** The answer to one without. */
export const queuedAnswer = (record: CompletionRecord) => ({
  ...answerOf(record),
  success: true,
  poll_url: `/completions/${record.uuid}`,
  completion: null,
});

type Changes = Partial<CompletionRecord>;

/** Longest stored answer, bytes; of a longer one the end is stored, since it has the conclusion. */
const maxResultBytes = 1_048_576;

export const changesBy = (
  { error, outcome, session }: TurnEnd,
  running: CompletionRecord,
  text: string,
  now: Date,
): Changes => {
  const facts: Changes | null = outcome && {
    cost_usd: outcome.costUsd,
    cost_estimated: outcome.costEstimated,
    num_turns: outcome.numTurns,
    usage: outcome.usage,
  };
  if (error !== null)
    return { ...facts, session_id: outcome?.sessionId ?? session, ...failedBy(error, running, now) };
  return {
    ...facts,
    status: "completed",
    is_error: false,
    session_id: session,
    result: cutFront(text, maxResultBytes),
    duration_ms: Math.round(outcome.durationMs),
    ended_at: now.toISOString(),
    error: null,
    error_code: null,
    model: outcome.model ?? running.model,
  };
};

/** A turn that the caller stopped, or abandoned, is cancelled; every other one failed. */
export const failedBy = (
  failure: { code: string; message: string },
  record: Pick<CompletionRecord, "created_at" | "started_at">,
  now: Date,
): Changes => ({
  status: failure.code === "turn_cancelled" ? "cancelled" : "failed",
  is_error: true,
  error: failure.message,
  error_code: failure.code,
  duration_ms: Math.max(0, now.getTime() - Date.parse(record.started_at ?? record.created_at)),
  ended_at: now.toISOString(),
});

/** Whether both are of one submission. */
export const isSame = (one: CompletionRecord, other: CompletionRecord): boolean =>
  one.epoch === other.epoch && one.created_at === other.created_at;

export const endOf = ({
  status,
  session_id: session,
  error,
}: Pick<CompletionRecord, "status" | "session_id" | "error">) => ({
  status,
  session,
  error,
});

export const lost = {
  code: "instance_lost",
  message: "The instance that ran it was lost; ask again, the conversation continues where it was",
};
