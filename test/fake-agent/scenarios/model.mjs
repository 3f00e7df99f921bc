/** How the real CLI tells that the model could not be used: an assistant line of its own making, then the result. */
const apiFailure = (turn, { status, error, text }) => {
  const { init, say, assistant, result, options, interruptions, noteInterrupted } = turn;
  init();
  if (interruptions >= (options.times ?? Number.POSITIVE_INFINITY)) {
    say("Done after all.");
    result({ result: "Done after all." });
    return 0;
  }
  noteInterrupted();
  const message = {
    id: "msg_error",
    role: "assistant",
    model: "<synthetic>",
    content: [{ type: "text", text }],
  };
  assistant([], { message, error });
  result({ is_error: true, api_error_status: status, result: text });
  return 1;
};

/**
 * `resetsAt`: seconds since the epoch, or `resetsIn`: from now; `event: false` leaves the rate_limit_event out; `times`: then
 * the session goes on.
 */
export const rateLimit = (turn) => {
  const { resetsIn, event = turn.interruptions < (turn.options.times ?? Number.POSITIVE_INFINITY) } =
    turn.options;
  const { resetsAt = resetsIn === undefined ? 1_795_234_654 : Math.floor(Date.now() / 1000 + resetsIn) } =
    turn.options;
  const info = { status: "rejected", resetsAt, rateLimitType: "five_hour", isUsingOverage: false };
  if (event) turn.line({ type: "rate_limit_event", rate_limit_info: info, ...turn.common() });
  return apiFailure(turn, {
    status: 429,
    error: "rate_limit",
    text: "You've hit your session limit · resets 3:50pm (UTC)",
  });
};

/** `status` null: not logged in, no request was made. */
export const authError = (turn) => {
  const { status = 401 } = turn.options;
  const text =
    status === null
      ? "Not logged in · Please run /login"
      : `API Error: ${status} {"type":"error","error":{"type":"authentication_error"}}`;
  return apiFailure(turn, { status, error: "authentication_failed", text });
};

export const apiError = (turn) => {
  const { status = 500 } = turn.options;
  const text =
    status === null ? "API Error: Connection refused" : `API Error: ${status} Internal server error`;
  return apiFailure(turn, { status, error: status === null ? "unknown" : "server_error", text });
};

const limitReached = ({ init, say, tool, result }, { subtype, message, reason }) => {
  init();
  say("I work on it.");
  tool("Bash", { command: "true" }, "");
  result({ subtype, is_error: true, errors: [message], result: undefined, terminal_reason: reason });
  return 1;
};

export const maxTurns = (turn) => {
  const message = `Reached maximum number of turns (${turn.args.maxTurns ?? 2})`;
  return limitReached(turn, { subtype: "error_max_turns", message, reason: "max_turns" });
};

export const budget = (turn) => {
  const message = "Reached maximum budget ($0.5)";
  return limitReached(turn, { subtype: "error_max_budget_usd", message, reason: "budget" });
};

/** Asks the model `attempts` times before it answers. */
export const retries = ({ options, init, line, common, say, result }) => {
  init();
  for (let attempt = 1; attempt <= (options.attempts ?? 2); attempt += 1) {
    const waits = {
      attempt,
      max_retries: 3,
      retry_delay_ms: 513.2,
      error_status: 529,
      error: "server_error",
    };
    line({ type: "system", subtype: "api_retry", ...waits, ...common() });
  }
  say("It worked in the end.");
  result({ result: "It worked in the end." });
};
