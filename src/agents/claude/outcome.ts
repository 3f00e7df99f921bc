import { addUsage, hasTokens, type Usage } from "../../contract/job.ts";
import type { EndedProcess, SpawnFailure } from "../../lib/process/supervise.ts";
import { leftWarnings } from "../../lib/process/sweep.ts";
import { redactDeep } from "../../lib/redact.ts";
import { cutFront } from "../../lib/tail-buffer.ts";
import type { AgentTurn, TurnOutcome } from "../agent.ts";
import { classify, type EndCause, type Ended, type Reason, type Verdict } from "./classify.ts";
import { isCutOff } from "./decode.ts";
import type { Observed } from "./read-output.ts";
import type { ClaudeSettings } from "./settings.ts";
import { blameVersion } from "./version.ts";

/** All that is known of an ended turn. */
export type EndedTurn = {
  turn: Pick<AgentTurn, "isLast" | "timeoutSeconds">;
  settings: ClaudeSettings;
  /** Version of the agent CLI, null when unknown. */
  version: string | null;
  profile: string;
  observed: Observed;
  cause: EndCause;
  /** Why the caller ended the turn. */
  interruption: unknown;
  prompted: boolean;
  /** Both are null for a process that goes on. */
  ended: Ended;
  redact: (text: string) => string;
  /** Earlier cost of the process, US dollars. */
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
    limitResetsAt: verdict.reason === "rate_limited" ? observed.limitResetsAt || null : null,
    error: verdict.ok ? null : cutFront(redact(errorText({ ...turn, verdict })), errorLimit),
    text: finalText(observed),
    deferred: verdict.ok && (observed.facts.deferred || cause === "deferred"),
    report: observed.facts.report === null ? null : redactDeep(observed.facts.report, redact),
    exitCode: ended.exitCode,
    // Not the result's: when a session cannot be resumed, the result names one that never existed.
    sessionId,
    model,
    numTurns: observed.numTurns,
    costUsd: ownCost(result?.cost_usd ?? null, turn.spent),
    costEstimated: false,
    usage: tokensOf(observed),
    durationMs,
  };
};

/** An interrupted run has no result, or one that counts nothing. */
const tokensOf = ({ usage, told, facts }: Observed): Usage | null =>
  hasTokens(usage) ? usage : (addUsage(told, hasTokens(facts.tokens) ? facts.tokens : null) ?? usage);

/**
 * The result's text. An error result of the CLI has none; then the tail of what the agent said. That of a turn with a report is
 * the report; then the agent's last words.
 */
const finalText = ({ result, said, lastWords, facts }: Observed): string => {
  if (facts.report !== null) return lastWords.text().trimEnd() || facts.report.summary;
  const text = result?.text ?? "";
  if (text !== "" && !isCutOff(result) && !result?.subtype.startsWith("error")) return text;
  return said.text().trimEnd() || text;
};

/** US dollars, without rounding noise of the subtraction. */
export const ownCost = (total: number | null, spent: number): number | null =>
  total === null ? null : Math.max(0, Number((total - spent).toFixed(10)));

/** The outcome of a turn whose prompt the agent never got. */
export const unpromptedOutcome = (reason: unknown): TurnOutcome => ({
  ...nothing,
  error: `The turn was ended by the service before the agent got it: ${reasonText(reason)}.`,
});

/** The outcome of a process that could not be started. */
export const unstartedOutcome = ({ code, message }: SpawnFailure): TurnOutcome => {
  if (code === "not_found" || code === "not_executable") {
    const error = `${message} Install the agent CLI or point SERVICE_AGENT_CLI_BINARY at it.`;
    return { ...nothing, reason: "cli_not_found", error: cutFront(error, errorLimit) };
  }
  return { ...nothing, reason: "internal", retryable: true, error: cutFront(message, errorLimit) };
};

/** The outcome of a process whose sandbox could not be made. */
export const unboxedOutcome = ({ message }: Error): TurnOutcome => ({
  ...nothing,
  reason: "sandbox_failed",
  retryable: true,
  error: cutFront(`The sandbox could not be made: ${message}.\nWhat to do: run svc doctor.`, errorLimit),
});

/** Irregularities that do not change the judgement of the turn. */
export const endWarnings = ({
  ended,
  observed,
  cause,
}: Pick<EndedTurn, "observed" | "cause"> & { ended: EndedProcess }): string[] => {
  const warnings: string[] = [];
  if (observed.result?.ok && (cause === "result_grace" || cause === "wall")) {
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
  limitResetsAt: null,
  error: null,
  text: "",
  deferred: false,
  report: null,
  exitCode: null,
  sessionId: null,
  model: null,
  numTurns: null,
  costUsd: null,
  costEstimated: false,
  usage: null,
  durationMs: 0,
};

type Failed = EndedTurn & { verdict: Verdict };

const errorLimit = 10_240;

/** What went wrong and what to do about it, then the agent's own words: at most 10,240 bytes. */
const errorText = (failed: Failed): string => {
  const { observed, cause, redact } = failed;
  // The result of an interrupted turn says only that, in technical terms.
  const ownText = cause === null ? (observed.result?.text ?? "").trim() : "";
  const parts = [sentence(failed)];
  if (ownText !== "") parts.push(`The agent said: ${cutFront(ownText, 2048)}`);
  const head = cutFront(parts.join("\n"), errorLimit - 1024);
  // Masked before it is cut: half a secret would be known to nobody.
  const errors = redact(observed.stderr.text()).trim();
  if (errors === "") return head;
  const title = "\n\nstderr of the agent:\n";
  return head + title + cutFront(errors, errorLimit - Buffer.byteLength(head + title));
};

/** Of a job, what to do is a line of its own: `svc` shows it apart. */
const sentence = (failed: Failed): string => {
  const { verdict, interruption, turn } = failed;
  if (verdict.reason === null) return `The run was ended by the service: ${reasonText(interruption)}.`;
  return sentences[verdict.reason](failed).replace("\n", turn.isLast === true ? "\nWhat to do: " : " ");
};

/** What went wrong; in the next line what to do about it, if anything. */
const sentences: Record<Reason, (failed: Failed) => string> = {
  timeout: ({ turn, profile }) =>
    `The agent was ended at its time limit of ${turn.timeoutSeconds} s.\n${raise("timeout", profile)} (default: SERVICE_AGENT_CLI_TIMEOUT, in agent mode AGENT_MODE_TIMEOUT), or continue the session.`,
  stalled: (failed) => stalled(failed),
  auth: () =>
    "The model provider refused the agent's credentials, or there are none.\nSet AGENT_CLI_OAUTH_TOKEN, MODEL_API_AUTH_TOKEN or ANTHROPIC_API_KEY for the service and try again.",
  rate_limited: ({ observed: { limitResetsAt } }) =>
    `A usage limit of the model provider is reached.\nTry again ${limitResetsAt ? `when it resets, at ${limitResetsAt}` : "later"}.`,
  api_error: ({ verdict, observed, profile, settings }) =>
    isUnreachable(observed)
      ? `The model could not be reached at ${settings.modelBaseUrl ?? "its provider"} (MODEL_API_BASE_URL).\nCheck that address and the network of the service's machine.`
      : `The model could not be used${status(observed.result?.api_status ?? null)}.\n${
          verdict.retryable
            ? "It may pass: try again."
            : `Check the model of "${profile}", and MODEL_API_BASE_URL.`
        }`,
  max_turns: ({ profile }) =>
    `The agent stopped at its limit of turns.\n${raise("max_turns", profile)}, or continue the session.`,
  budget: ({ profile }) =>
    `The agent stopped at its limit of cost.\n${raise("max_budget_usd", profile)}, or continue the session.`,
  cli_not_found: ({ settings }) =>
    `The agent CLI "${settings.agentCliBinary}" could not be executed.\nCheck its installation or SERVICE_AGENT_CLI_BINARY.`,
  agent_error: ({ observed, cause }) =>
    cause === "lost"
      ? "The agent's question is lost: its process ended while it was asked.\nContinue the session, and tell the answer."
      : observed.facts.refused
        ? "The model refused the task.\nPut it in other words, or choose another model."
        : "The agent reported that it failed.",
  sandbox_failed: () => "The sandbox did not start.\nRead its own message below; svc doctor tries it.",
  agent_exit: (failed) => exit(failed),
};

const stalled = (failed: Failed): string => {
  const { agentCliFirstOutputTimeout: first, agentCliIdleTimeout: idle } = failed.settings;
  if (failed.cause === "begin") return "The agent did not begin the turn in time and was ended.\nTry again.";
  if (failed.cause !== "first_output")
    return `The agent went silent for ${idle} s (SERVICE_AGENT_CLI_IDLE_TIMEOUT) and was ended.\nContinue the session.`;
  const limit = `within ${first} s (SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT)`;
  const { agent, advice } = blame(failed);
  return failed.observed.events > 0
    ? `The model gave no answer ${limit}, and the agent was ended.\nTry again.`
    : `${agent} gave no sign of life ${limit} and was ended.\n${advice ?? "Try again."}`;
};

const isUnreachable = ({ result }: Observed): boolean =>
  result?.api_status === null && /connect/i.test(result.text);

const raise = (limit: string, profile: string): string => `Raise \`${limit}\` of "${profile}"`;

const blame = ({ version, observed }: Pick<Failed, "version" | "observed">) =>
  blameVersion(version, { hasBegun: observed.events > 0 });

/** Claims no more than is known: the transcript may have the answer although the output was lost. */
const exit = (failed: Failed): string => {
  const { exitCode, signal, exceeded = null } = failed.ended;
  const { isLineCut, stdoutBytes } = failed.observed;
  const { agent, advice: install } = blame(failed);
  const advice = install ?? "Try again, or continue the session.";
  if (exceeded !== null)
    return `${agent} ended without a result, after its run reached its limit of memory, ${Math.round(exceeded / 2 ** 20)} MiB. What lies in its /tmp and /dev/shm counts.\n${raise("sandbox.memory", failed.profile)}, or have the task use less.`;
  if (signal !== null) {
    const memory = signal === "SIGKILL" ? " The system may have run out of memory." : "";
    return `${agent} was killed by ${signal} before it gave a result.${memory}\n${advice}`;
  }
  const how = `${agent} exited with code ${exitCode ?? "unknown"}`;
  if (isLineCut) {
    return `${how}, but its output breaks off in the middle of a line after ${stdoutBytes} bytes, so its result did not arrive. What it did is kept; its transcript may tell the rest.\n${advice}`;
  }
  const read = install ?? "Read the agent's own message below; svc doctor tries the agent CLI.";
  return `${how} without giving a result.\n${exitCode === 0 ? advice : read}`;
};

const status = (code: number | null): string => (code === null ? "" : ` (status ${code})`);

/** The reason of an aborted signal as the end of a sentence. */
const reasonText = (reason: unknown): string => {
  const text =
    reason instanceof Error ? reason.message : typeof reason === "string" ? reason : "no reason was given";
  return text.replace(/\.$/, "").replaceAll(/\s+/g, " ");
};
