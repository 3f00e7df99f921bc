import type { EndedProcess, SpawnFailure } from "../../lib/process/supervise.ts";
import { leftWarnings } from "../../lib/process/sweep.ts";
import { cutFront } from "../../lib/tail-buffer.ts";
import type { AgentTurn, TurnOutcome } from "../agent.ts";
import { classify, type EndCause, type Ended } from "./classify.ts";
import type { Observed } from "./read-output.ts";
import { errorLimit, errorText, reasonText } from "./sentences.ts";
import type { ClaudeSettings } from "./settings.ts";

/** All that is known of a turn that is over. */
export type EndedTurn = {
  turn: Pick<AgentTurn, "isLast" | "timeoutSeconds">;
  settings: ClaudeSettings;
  profile: string;
  observed: Observed;
  cause: EndCause;
  /** Why the caller ended the turn, or what kept it from being passed on. */
  interruption: unknown;
  prompted: boolean;
  /** Of a process that goes on both are null. */
  ended: Ended;
  redact: (text: string) => string;
  /** What the process had cost before, US dollars. */
  spent: number;
  durationMs: number;
};

/** The outcome of a turn, whether its process goes on or not. */
export const turnOutcome = (turn: EndedTurn): TurnOutcome => {
  const { observed, cause, ended, prompted, redact, durationMs } = turn;
  const { result, sessionId, model } = observed;
  const verdict = classify({ observed: { ...observed, stderr: observed.stderr.text() }, cause, ended });
  return {
    ...verdict,
    prompted,
    apiStatus: result?.api_status ?? null,
    error: verdict.ok ? null : cutFront(redact(errorText({ ...turn, verdict })), errorLimit),
    text: redact(finalText(observed)),
    exitCode: ended.exitCode,
    // Not the result's: when a session cannot be resumed that one names a session which never was.
    sessionId,
    model,
    numTurns: result?.num_turns ?? null,
    costUsd: ownCost(result?.cost_usd ?? null, turn.spent),
    usage: result?.usage ?? null,
    durationMs,
  };
};

/** The result's text; results that tell an error of their own have none, then it is the end of what the agent said. */
const finalText = ({ result, said }: Observed): string => {
  const text = result?.text ?? "";
  if (text !== "" && !result?.subtype.startsWith("error")) return text;
  return said.text().trimEnd() || text;
};

/** US dollars, without the noise of the subtraction. */
export const ownCost = (total: number | null, spent: number): number | null =>
  total === null ? null : Math.max(0, Number((total - spent).toFixed(10)));

/** The outcome of a turn that the agent was never told of. */
export const unpromptedOutcome = (reason: unknown): TurnOutcome => ({
  ...nothing,
  error: `The turn was ended by the service before the agent heard of it: ${reasonText(reason)}.`,
});

/** The outcome of a process that could not be started. */
export const unstartedOutcome = ({ code, message }: SpawnFailure): TurnOutcome => {
  if (code === "not_found" || code === "not_executable") {
    const error = `${message} Install the agent CLI or point SERVICE_AGENT_CLI_BINARY at it.`;
    return { ...nothing, reason: "cli_not_found", error: cutFront(error, errorLimit) };
  }
  return { ...nothing, reason: "internal", retryable: true, error: cutFront(message, errorLimit) };
};

/** What did not go as it should, although it does not change how the turn is judged. */
export const endWarnings = ({
  ended,
  observed,
  cause,
}: Pick<EndedTurn, "observed" | "cause"> & { ended: EndedProcess }): string[] => {
  const warnings: string[] = [];
  if (observed.result?.ok && cause === "result_grace") {
    warnings.push("The agent did not exit after its result and was ended; the result stands.");
  } else if (observed.result?.ok && cause === null && ended.exitCode !== 0) {
    const how =
      ended.signal === null ? `exited with code ${ended.exitCode}` : `was killed by ${ended.signal}`;
    warnings.push(`The agent ${how} after a good result; the result stands.`);
  }
  if (ended.pipesHeldOpen) {
    warnings.push(
      "A process that the agent left behind kept its output open; the end of the output may be missing.",
    );
  }
  return [...warnings, ...leftWarnings(ended)];
};

const nothing: TurnOutcome = {
  ok: false,
  prompted: false,
  reason: null,
  retryable: false,
  apiStatus: null,
  error: null,
  text: "",
  exitCode: null,
  sessionId: null,
  model: null,
  numTurns: null,
  costUsd: null,
  usage: null,
  durationMs: 0,
};
