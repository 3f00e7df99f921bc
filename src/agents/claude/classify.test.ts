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

type Case = {
  given: string;
  result?: ResultEvent;
  cause?: EndCause;
  exit?: number | null;
  signal?: string;
  stderr?: string;
  apiError?: string;
  refused?: boolean;
  limitResetsAt?: string;
  events?: number;
  expected: Reason | null | "ok";
  retryable?: boolean;
};

const good = result({ ok: true });

const cases: Case[] = [
  { given: "a good result", result: good, exit: 0, expected: "ok" },
  { given: "a good result, exit 1", result: good, exit: 1, expected: "ok" },
  { given: "a good result, killed", result: good, exit: null, signal: "SIGKILL", expected: "ok" },
  {
    given: "a good result, ended by the grace",
    result: good,
    cause: "result_grace",
    exit: 143,
    expected: "ok",
  },
  { given: "a good result, then cancelled", result: good, cause: "aborted", exit: 143, expected: "ok" },
  { given: "an error result with exit 0", result: result(), exit: 0, expected: "agent_error" },
  { given: "cancelled", cause: "aborted", exit: 143, expected: null },
  {
    given: "cancelled, with the error of the interruption",
    cause: "aborted",
    result: result({ subtype: "error_during_execution" }),
    expected: null,
  },
  { given: "the wall time", cause: "wall", exit: 143, expected: "timeout" },
  { given: "no first output", cause: "first_output", exit: 143, expected: "stalled", retryable: true },
  { given: "silence", cause: "idle", signal: "SIGKILL", exit: null, expected: "stalled", retryable: true },
  { given: "too many turns", result: result({ subtype: "error_max_turns" }), expected: "max_turns" },
  {
    given: "too many turns at status 500",
    result: result({ subtype: "error_max_turns", api_status: 500 }),
    expected: "max_turns",
  },
  { given: "the budget", result: result({ subtype: "error_max_budget_usd" }), expected: "budget" },
  { given: "401", result: result({ api_status: 401 }), expected: "auth" },
  { given: "403", result: result({ api_status: 403 }), expected: "auth" },
  { given: "no login", result: result({ text: "Not logged in · Please run /login" }), expected: "auth" },
  {
    given: "no login, without a result",
    exit: 1,
    stderr: "Not logged in · Please run /login",
    expected: "auth",
  },
  { given: "429", result: result({ api_status: 429 }), expected: "rate_limited", retryable: true },
  {
    given: "a rejected limit",
    result: result(),
    limitResetsAt: "2026-01-01T00:00:00.000Z",
    expected: "rate_limited",
    retryable: true,
  },
  {
    given: "a limit in words",
    result: result({ text: "You've hit your session limit · resets 3:50pm" }),
    expected: "rate_limited",
    retryable: true,
  },
  {
    given: "500 after a limit",
    result: result({ api_status: 500 }),
    limitResetsAt: "",
    expected: "api_error",
    retryable: true,
  },
  { given: "529", result: result({ api_status: 529 }), expected: "api_error", retryable: true },
  { given: "400", result: result({ api_status: 400 }), expected: "api_error" },
  { given: "404", result: result({ api_status: 404 }), apiError: "model_not_found", expected: "api_error" },
  {
    given: "no endpoint",
    result: result({ text: "API Error: Connection refused" }),
    expected: "api_error",
    retryable: true,
  },
  {
    given: "an error of the session",
    result: result({ subtype: "error_during_execution", text: "No conversation found" }),
    expected: "agent_error",
  },
  {
    given: "a refusal",
    result: result({ text: "API Error: unable to respond" }),
    apiError: "invalid_request",
    refused: true,
    expected: "agent_error",
  },
  { given: "exit 0 without a result", exit: 0, expected: "agent_exit", retryable: true },
  { given: "exit 1 without a result", exit: 1, stderr: "unknown option", expected: "agent_exit" },
  {
    given: "a signal without a result",
    exit: null,
    signal: "SIGSEGV",
    expected: "agent_exit",
    retryable: true,
  },
  { given: "a shell's account of a signal", exit: 137, expected: "agent_exit", retryable: true },
  { given: "127 before any event", exit: 127, events: 0, expected: "cli_not_found" },
  { given: "127 after events", exit: 127, expected: "agent_exit" },
];

test.for(cases.map((one) => [one.given, one] as const))("%s", ([, one]) => {
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
  const ok = one.expected === "ok";
  expect(verdict).toEqual({ ok, reason: ok ? null : one.expected, retryable: one.retryable ?? false });
});
