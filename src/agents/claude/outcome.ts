import type { EndedProcess, SpawnFailure } from "../../lib/process/supervise.ts";
import { leftWarnings } from "../../lib/process/sweep.ts";
import { cutFront } from "../../lib/tail-buffer.ts";
import type { AgentOutcome, AgentTurn } from "../agent.ts";
import { classify, type EndCause } from "./classify.ts";
import { errorLimit, outputLimit, type Observed } from "./observed.ts";
import { reasonText } from "./reason-text.ts";
import { errorText, type Failed } from "./sentences.ts";
import type { ClaudeSettings } from "./settings.ts";

export type Attended = { ended: EndedProcess; observed: Observed; cause: EndCause };

type RunContext = {
  settings: ClaudeSettings;
  turn: AgentTurn;
  /** Why the caller ended the run, or why it could not be recorded. */
  interruption: unknown;
  prompted: boolean;
  redact: (text: string) => string;
};

/** The outcome of a run that had a process. */
export const outcomeOf = (run: Attended & RunContext): AgentOutcome => {
  const { settings, turn, ended, observed, cause, interruption, prompted, redact } = run;
  const stderr = observed.stderr.text();
  const verdict = classify({ observed: { ...observed, stderr }, cause, ended });
  const { timeoutSeconds, profile } = turn.launch;
  const failed: Failed = {
    verdict,
    cause,
    ended,
    observed,
    settings,
    timeoutSeconds,
    profile,
    wording: "run",
    interruption,
    stderr,
  };
  const output = cutFront(redact(finalText(observed)), outputLimit);
  const { num_turns, cost_usd, usage } = observed.result ?? noAccount;
  return {
    ...verdict,
    prompted,
    output: output === "" ? null : output,
    error: verdict.ok ? null : cutFront(redact(errorText(failed)), errorLimit),
    exit_code: ended.exitCode,
    // Not the result's: when a session cannot be resumed that one names a session which never was.
    session_id: observed.sessionId,
    model: observed.model,
    num_turns,
    cost_usd,
    usage,
  };
};

/** The result's text; results that tell an error of their own have none, then it is the end of what the agent said. */
export const finalText = ({ result, said }: Observed): string => {
  const text = result?.text ?? "";
  if (text !== "" && !result?.subtype.startsWith("error")) return text;
  return said.text().trimEnd() || text;
};

/** The outcome of a run whose process never was. */
export const unstarted = (why: SpawnFailure | { code: "aborted"; reason: unknown }): AgentOutcome => {
  const nothing = {
    ok: false,
    prompted: false,
    output: null,
    exit_code: null,
    session_id: null,
    model: null,
    ...noAccount,
  };
  if (why.code !== "aborted") return { ...nothing, ...spawnFault(why) };
  const error = `The run was ended before the agent was started: ${reasonText(why.reason)}.`;
  return { ...nothing, reason: null, retryable: false, error: cutFront(error, errorLimit) };
};

/** Why a process could not be started. */
export const spawnFault = ({
  code,
  message,
}: SpawnFailure): { reason: "cli_not_found" | "internal"; retryable: boolean; error: string } => {
  if (code === "not_found" || code === "not_executable") {
    const error = `${message} Install the agent CLI or point SERVICE_AGENT_CLI_BINARY at it.`;
    return { reason: "cli_not_found", retryable: false, error: cutFront(error, errorLimit) };
  }
  return { reason: "internal", retryable: true, error: cutFront(message, errorLimit) };
};

/** What did not go as it should, although it does not change how the run is judged. */
export const endWarnings = ({ ended, observed, cause }: Attended): string[] => {
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

const noAccount = { num_turns: null, cost_usd: null, usage: null };
