import type { FailureReason } from "../../contract/job.ts";
import { isCutOff, type DecoderFacts, type ResultEvent } from "./decode.ts";
import type { Observed } from "./read-output.ts";
import type { Limit } from "./limits.ts";

/**
 * Why the service ended the run, `deferred`: for a question that
 * the next one asks again, `lost`: that question is lost; null: it ended by itself.
 */
export type EndCause = Limit | "aborted" | "deferred" | "lost" | null;

export type Ended = { exitCode: number | null; signal: string | null; exceeded?: number | null };

/** The failure reasons of this adapter. */
export type Reason = Extract<
  FailureReason,
  | "agent_error"
  | "agent_exit"
  | "api_error"
  | "rate_limited"
  | "auth"
  | "max_turns"
  | "budget"
  | "timeout"
  | "stalled"
  | "cli_not_found"
  | "sandbox_failed"
>;

/** The judgement of a run. `reason` null with `ok` false: the caller ended it. */
export type Verdict = { ok: boolean; reason: Reason | null; retryable: boolean };

type Evidence = {
  observed: Pick<Observed, "result" | "limitResetsAt" | "events"> & {
    facts: Pick<DecoderFacts, "apiError" | "refused">;
    stderr: string;
  };
  cause: EndCause;
  ended: Ended;
};

/**
 * Judges a run by its decisive result, then by why the service ended it, then by exit code and signal. Exit code 0
 * without a result is a failure, and so is an error result with exit code 0; a good result stays good whatever the
 * exit is.
 */
export const classify = ({ observed, cause, ended }: Evidence): Verdict => {
  // A turn that was cut off has another one after it, whose result counts.
  const result = isCutOff(observed.result) ? null : observed.result;
  if (result?.ok || cause === "deferred") return { ok: true, reason: null, retryable: false };
  if (cause === "aborted") return { ok: false, reason: null, retryable: false };
  if (cause === "lost") return failure("agent_error", true);
  if (cause === "wall") return failure("timeout", false);
  if (cause === "begin" || cause === "first_output" || cause === "idle") return failure("stalled", true);
  return result === null ? withoutResult(observed, ended) : byResult(result, observed);
};

/** Meanings of an error result; the first match decides. */
const meanings: {
  matches: (result: ResultEvent, observed: Evidence["observed"]) => boolean;
  reason: Reason;
}[] = [
  { reason: "max_turns", matches: ({ subtype }) => subtype === "error_max_turns" },
  { reason: "budget", matches: ({ subtype }) => subtype.startsWith("error_max_budget") },
  { reason: "auth", matches: ({ api_status: status }) => status === 401 || status === 403 },
  { reason: "rate_limited", matches: ({ api_status: status }) => status === 429 },
  { reason: "api_error", matches: ({ api_status: status }) => status !== null },
  {
    reason: "auth",
    matches: ({ text }, { facts }) => facts.apiError === "authentication_failed" || notLoggedIn.test(text),
  },
  { reason: "agent_error", matches: (_, { facts }) => facts.refused },
  {
    reason: "rate_limited",
    matches: ({ text }, { facts, limitResetsAt }) =>
      facts.apiError === "rate_limit" || limitResetsAt !== null || limitText.test(text),
  },
  {
    reason: "api_error",
    matches: ({ text }, { facts }) => facts.apiError !== null || text.startsWith("API Error"),
  },
];

const byResult = (result: ResultEvent, observed: Evidence["observed"]): Verdict => {
  const reason = meanings.find(({ matches: fits }) => fits(result, observed))?.reason ?? "agent_error";
  // Without a status the endpoint was unreachable; of the others only the server's own faults are temporary.
  const isTemporary = result.api_status === null || result.api_status >= 500 || result.api_status === 408;
  return failure(reason, reason === "rate_limited" || (reason === "api_error" && isTemporary));
};

const withoutResult = (
  { events, stderr, limitResetsAt }: Evidence["observed"],
  { exitCode, signal }: Ended,
): Verdict => {
  if (events === 0 && (exitCode === 126 || exitCode === 127)) return failure("cli_not_found", false);
  if (events === 0 && exitCode !== 0 && /^(bwrap|landlock): /m.test(stderr))
    return failure("sandbox_failed", false);
  if (notLoggedIn.test(stderr)) return failure("auth", false);
  if (limitResetsAt !== null && signal === null && exitCode !== 0) return failure("rate_limited", true);
  // An unexpected signal, or lost output, need not happen again; a refused option will.
  return failure("agent_exit", signal !== null || exitCode === 0 || (exitCode ?? 0) > 128);
};

const failure = (reason: Reason, retryable: boolean): Verdict => ({ ok: false, reason, retryable });

const notLoggedIn = /not logged in|please run \/login|invalid api key|oauth token (has expired|revoked)/i;
const limitText = /(hit|reached) your .{0,40}limit|usage limit reached|rate limit/i;
