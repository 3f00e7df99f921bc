import type { FailureReason } from "../../contract/job.ts";
import type { DecoderFacts } from "./decode.ts";
import type { Observed } from "./read-output.ts";
import type { ResultEvent } from "./result.ts";
import type { Limit } from "./limits.ts";

/** Why the service ended the run; null: it ended by itself. */
export type EndCause = Limit | "aborted" | "not_recorded" | null;

export type Ended = { exitCode: number | null; signal: string | null };

/** The reasons that this room can give. */
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
  | "internal"
>;

/** How a run went. `reason` null with `ok` false: the caller ended it. */
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
 * What became of a run: the result that decides, then why we ended it, then exit code and signal. Exit code 0 without a
 * result is a failure, an error result with exit code 0 too, and a good result stays good whatever the exit is.
 */
export const classify = ({ observed, cause, ended }: Evidence): Verdict => {
  const { result } = observed;
  if (cause === "not_recorded") return failure("internal", true);
  if (result?.ok) return { ok: true, reason: null, retryable: false };
  if (cause === "aborted") return { ok: false, reason: null, retryable: false };
  if (cause === "wall") return failure("timeout", false);
  if (cause === "first_output" || cause === "idle") return failure("stalled", true);
  return result === null ? withoutResult(observed, ended) : byResult(result, observed);
};

/** What an error result can mean; the first line that fits decides. */
const meanings: { fits: (result: ResultEvent, observed: Evidence["observed"]) => boolean; reason: Reason }[] =
  [
    { reason: "max_turns", fits: ({ subtype }) => subtype === "error_max_turns" },
    { reason: "budget", fits: ({ subtype }) => subtype.startsWith("error_max_budget") },
    { reason: "auth", fits: ({ api_status: status }) => status === 401 || status === 403 },
    { reason: "rate_limited", fits: ({ api_status: status }) => status === 429 },
    { reason: "api_error", fits: ({ api_status: status }) => status !== null },
    {
      reason: "auth",
      fits: ({ text }, { facts }) => facts.apiError === "authentication_failed" || notLoggedIn.test(text),
    },
    { reason: "agent_error", fits: (_, { facts }) => facts.refused },
    {
      reason: "rate_limited",
      fits: ({ text }, { facts, limitResetsAt }) =>
        facts.apiError === "rate_limit" || limitResetsAt !== null || limitText.test(text),
    },
    {
      reason: "api_error",
      fits: ({ text }, { facts }) => facts.apiError !== null || text.startsWith("API Error"),
    },
  ];

const byResult = (result: ResultEvent, observed: Evidence["observed"]): Verdict => {
  const reason = meanings.find(({ fits }) => fits(result, observed))?.reason ?? "agent_error";
  // Without a status the endpoint could not be reached; of the others only the server's own faults may pass.
  const passing = result.api_status === null || result.api_status >= 500 || result.api_status === 408;
  return failure(reason, reason === "rate_limited" || (reason === "api_error" && passing));
};

const withoutResult = (
  { events, stderr, limitResetsAt }: Evidence["observed"],
  { exitCode, signal }: Ended,
): Verdict => {
  if (events === 0 && (exitCode === 126 || exitCode === 127)) return failure("cli_not_found", false);
  if (notLoggedIn.test(stderr)) return failure("auth", false);
  if (limitResetsAt !== null && signal === null && exitCode !== 0) return failure("rate_limited", true);
  // A signal that we did not send, or output that was lost, need not meet the next run; a refused option will.
  return failure("agent_exit", signal !== null || exitCode === 0 || (exitCode ?? 0) > 128);
};

const failure = (reason: Reason, retryable: boolean): Verdict => ({ ok: false, reason, retryable });

const notLoggedIn = /not logged in|please run \/login|invalid api key|oauth token (has expired|revoked)/i;
const limitText = /(hit|reached) your .{0,40}limit|usage limit reached|rate limit/i;
