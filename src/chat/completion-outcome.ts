import { ServiceError } from "../contract/errors.ts";
import { cutFront } from "../lib/tail-buffer.ts";
import { toCompletion, type CompletionRecord } from "../store/completion-store.ts";
import type { EngineOutcome } from "./engine.ts";

type Changes = Partial<CompletionRecord>;

/** Most of an answer that is kept, bytes; of a longer one the end, which says what came of it. */
const longestResult = 1_048_576;

export const completedBy = (outcome: EngineOutcome, now: Date): Changes => ({
  status: "completed",
  is_error: false,
  result: cutFront(outcome.text, longestResult),
  session_id: outcome.sessionId,
  cost_usd: outcome.costUsd,
  duration_ms: Math.round(outcome.durationMs),
  num_turns: outcome.numTurns,
  usage: outcome.usage,
  ended_at: now.toISOString(),
  ...(outcome.model === null ? {} : { model: outcome.model }),
});

/** One that the caller or its leaving has stopped is cancelled, whatever else ended it failed. */
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

export const lost = {
  code: "instance_lost",
  message: "The instance that ran it is gone; ask again, the conversation goes on where it was",
};

export const internal = {
  code: "internal",
  message: "The service failed; its log says why",
};

export const cancelled = (): ServiceError =>
  new ServiceError("turn_cancelled", "The completion was cancelled");

export const callerLeft = (): ServiceError =>
  new ServiceError(
    "turn_cancelled",
    "The caller went away before the answer was complete, which cancels it; use wait false, or AGENT_MODE_ON_DISCONNECT=detach",
  );

export const shuttingDown = (): ServiceError =>
  new ServiceError(
    "draining",
    "The service is shutting down; ask again, the conversation goes on where it was",
    { retryAfter: 5 },
  );

/** The answer to a completion that was waited for. */
export const answerOf = (record: CompletionRecord) => {
  const { uuid, status, result, session_id, cost_usd, duration_ms, num_turns, is_error, usage } = record;
  return {
    success: status === "completed",
    status,
    uuid,
    poll_url: null,
    result,
    session_id,
    cost_usd,
    duration_ms,
    num_turns,
    is_error,
    usage,
    error: record.error,
    code: record.error_code,
    completion: toCompletion(record),
  };
};

/** The answer to one that is not. */
export const queuedAnswer = (uuid: string) => ({
  success: true,
  status: "queued" as const,
  uuid,
  poll_url: `/completions/${uuid}`,
  result: null,
  session_id: null,
  cost_usd: null,
  duration_ms: null,
  num_turns: null,
  is_error: false,
  usage: null,
  error: null,
  code: null,
  completion: null,
});
