import type { TurnOutcome } from "../agents/agent.ts";
import { ServiceError, type ErrorCode } from "../contract/errors.ts";
import type { FailureReason } from "../contract/job.ts";
import type { LoadedAgent } from "../profiles/agent-package.ts";

/** The error of a failed turn. If the caller ended the turn, it is the reason of the signal. */
export const turnFailure = (
  { reason, error, limitResetsAt: at }: Pick<TurnOutcome, "reason" | "error" | "limitResetsAt">,
  signal: AbortSignal,
): ServiceError => {
  if (reason === null) return endedBy(signal);
  const seconds = at === null ? null : Math.ceil((Date.parse(at) - Date.now()) / 1000);
  const words = error ?? `The turn failed: ${reason}`;
  return new ServiceError(
    codes[reason] ?? "agent_failed",
    words,
    seconds === null ? {} : { retryAfter: Math.max(1, seconds) },
  );
};

export const endedBy = ({ reason }: AbortSignal): ServiceError =>
  reason instanceof ServiceError ? reason : new ServiceError("turn_cancelled", "The turn was stopped");

const codes: Partial<Record<FailureReason, ErrorCode>> = {
  timeout: "turn_timeout",
  stalled: "agent_stalled",
  rate_limited: "model_rate_limited",
  auth: "model_credentials",
  api_error: "model_failed",
  max_turns: "max_turns_reached",
  budget: "max_budget_reached",
  cli_not_found: "agent_not_found",
  agent_exit: "agent_crashed",
  profile_invalid: "invalid_profile",
  mcp_config_invalid: "invalid_profile",
};

export const unknownModel = (model: string, { models }: LoadedAgent): ServiceError =>
  new ServiceError(
    "model_not_found",
    `The model ${JSON.stringify(model.slice(0, 100))} does not exist; use one of ${models.slice(0, 20).join(", ")}`,
  );

export type PublicError = { message: string; type: string; param: string | null; code: string | null };

/** @param param name of the request's field at fault */
export const publicError = (
  { status, code, message }: ServiceError,
  param: string | null = null,
): PublicError => ({
  message,
  type: types[status] ?? (status >= 500 ? "server_error" : "invalid_request_error"),
  param,
  code,
});

const types: Partial<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
};
