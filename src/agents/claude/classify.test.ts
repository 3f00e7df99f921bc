import { expect, test } from "vitest";
import { classify, type EndCause, type Reason } from "./classify.ts";
import type { ResultEvent } from "./decode.ts";

const result = (more: Partial<ResultEvent> = {}): ResultEvent => ({
  type: "result",
  ok: false,
  text: "",
  subtype: "success",
  api_status: null,
  session_id: null,
  num_turns: 1,
  cost_usd: 0,
  usage: null,
  duration_ms: 1,
  ...more,
});

type Given = {
  result?: ResultEvent;
  cause?: EndCause;
  exit?: number | null;
  signal?: string;
  stderr?: string;
  apiError?: string;
  refused?: boolean;
  limitResetsAt?: string;
  events?: number;
};

const good = result({ ok: true });
const status = (api_status: number) => ({ result: result({ api_status }) });
const said = (text: string) => ({ result: result({ text }) });
const subtype = (subtype: string, more: Partial<ResultEvent> = {}) => ({
  result: result({ subtype, ...more }),
});
const again = true;

/** What became of the run, the reason that is given for it, and whether another try may help. */
const cases: [what: string, given: Given, expected: Reason | null | "ok", retryable?: boolean][] = [
  ["a good result", { result: good, exit: 0 }, "ok"],
  ["a good result, exit 1", { result: good, exit: 1 }, "ok"],
  ["a good result, killed", { result: good, exit: null, signal: "SIGKILL" }, "ok"],
  ["a good result, ended by the grace", { result: good, cause: "result_grace", exit: 143 }, "ok"],
  ["a good result, then cancelled", { result: good, cause: "aborted", exit: 143 }, "ok"],
  ["an error result with exit 0", { result: result(), exit: 0 }, "agent_error"],
  ["cancelled", { cause: "aborted", exit: 143 }, null],
  ["cancelled, with its error", { cause: "aborted", ...subtype("error_during_execution") }, null],
  ["the wall time", { cause: "wall", exit: 143 }, "timeout"],
  ["no first output", { cause: "first_output", exit: 143 }, "stalled", again],
  ["silence", { cause: "idle", signal: "SIGKILL", exit: null }, "stalled", again],
  ["too many turns", subtype("error_max_turns"), "max_turns"],
  ["too many turns at status 500", subtype("error_max_turns", { api_status: 500 }), "max_turns"],
  ["the budget", subtype("error_max_budget_usd"), "budget"],
  ["401", status(401), "auth"],
  ["403", status(403), "auth"],
  ["no login", said("Not logged in · Please run /login"), "auth"],
  ["no login, without a result", { exit: 1, stderr: "Not logged in · Please run /login" }, "auth"],
  ["429", status(429), "rate_limited", again],
  [
    "a rejected limit",
    { result: result(), limitResetsAt: "2026-01-01T00:00:00.000Z" },
    "rate_limited",
    again,
  ],
  ["a limit in words", said("You've hit your session limit · resets 3:50pm"), "rate_limited", again],
  ["500 after a limit", { ...status(500), limitResetsAt: "" }, "api_error", again],
  ["529", status(529), "api_error", again],
  ["400", status(400), "api_error"],
  ["404", { ...status(404), apiError: "model_not_found" }, "api_error"],
  ["no endpoint", said("API Error: Connection refused"), "api_error", again],
  [
    "an error of the session",
    subtype("error_during_execution", { text: "No conversation found" }),
    "agent_error",
  ],
  [
    "a refusal",
    { ...said("API Error: unable to respond"), apiError: "invalid_request", refused: true },
    "agent_error",
  ],
  ["exit 0 without a result", { exit: 0 }, "agent_exit", again],
  ["exit 1 without a result", { exit: 1, stderr: "unknown option" }, "agent_exit"],
  ["a signal without a result", { exit: null, signal: "SIGSEGV" }, "agent_exit", again],
  ["a shell's account of a signal", { exit: 137 }, "agent_exit", again],
  ["127 before any event", { exit: 127, events: 0 }, "cli_not_found"],
  ["127 after events", { exit: 127 }, "agent_exit"],
];

test.for(cases)("%s", ([, one, expected, retryable = false]) => {
  const { stderr = "", apiError = null, limitResetsAt = null, events = 3 } = one;
  const verdict = classify({
    observed: {
      result: one.result ?? null,
      facts: { apiError, refused: one.refused ?? false },
      limitResetsAt,
      events,
      stderr,
    },
    cause: one.cause ?? null,
    ended: { exitCode: one.exit ?? null, signal: one.signal ?? null },
  });
  const ok = expected === "ok";
  expect(verdict).toEqual({ ok, reason: ok ? null : expected, retryable });
});
