import type { EndedProcess, SpawnFailure } from "../../lib/process/supervise.ts";
import { leftWarnings } from "../../lib/process/sweep.ts";
import { cutFront } from "../../lib/tail-buffer.ts";
import type { AgentTurn, TurnOutcome } from "../agent.ts";
import { classify, type EndCause, type Ended, type Reason, type Verdict } from "./classify.ts";
import type { Observed } from "./read-output.ts";
import type { ClaudeSettings } from "./settings.ts";

/** All that is known of an ended turn. */
export type EndedTurn = {
  turn: Pick<AgentTurn, "isLast" | "timeoutSeconds">;
  settings: ClaudeSettings;
  profile: string;
  observed: Observed;
  cause: EndCause;
  /** Why the caller ended the turn, or the error of its event handler. */
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
    error: verdict.ok ? null : cutFront(redact(errorText({ ...turn, verdict })), errorLimit),
    text: redact(finalText(observed)),
    exitCode: ended.exitCode,
    // Not the result's: when a session cannot be resumed, the result names one that never existed.
    sessionId,
    model,
    numTurns: result?.num_turns ?? null,
    costUsd: ownCost(result?.cost_usd ?? null, turn.spent),
    usage: result?.usage ?? null,
    durationMs,
  };
};

/** The result's text. An error result of the CLI has none; then the tail of what the agent said. */
const finalText = ({ result, said }: Observed): string => {
  const text = result?.text ?? "";
  if (text !== "" && !result?.subtype.startsWith("error")) return text;
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

/** Irregularities that do not change the judgement of the turn. */
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

type Judged = EndedTurn & { verdict: Verdict };
type Failed = Judged & { words: Words };

const errorLimit = 10_240;

/** What went wrong and what to do about it, then the agent's own words: at most 10,240 bytes. */
const errorText = (judged: Judged): string => {
  const { observed } = judged;
  const isJob = judged.turn.isLast === true;
  const failed: Failed = { ...judged, words: isJob ? jobWords : chatWords };
  // The result of an interrupted turn says only that, in technical terms.
  const ownText = isJob || failed.cause === null ? (observed.result?.text ?? "").trim() : "";
  const parts = [sentence(failed)];
  // The result of an interrupted run says only that it was interrupted.
  const isOwnEnd = failed.cause !== null && observed.result?.ok === false;
  if (ownText !== "" && !isOwnEnd) parts.push(`The agent said: ${cutFront(ownText, 2048)}`);
  const head = cutFront(parts.join("\n"), errorLimit - 1024);
  const errors = observed.stderr.text().trim();
  if (errors === "") return head;
  const title = "\n\nstderr of the agent:\n";
  return head + title + cutFront(errors, errorLimit - Buffer.byteLength(head + title));
};

/** Of a job, what to do is a line of its own: `svc` shows it apart. */
const sentence = (failed: Failed): string => {
  const { verdict, words, interruption } = failed;
  if (verdict.reason === null)
    return `The ${words.what} was ended by the service: ${reasonText(interruption)}.`;
  return sentences[verdict.reason](failed).replace("\n", words === jobWords ? "\nWhat to do: " : " ");
};

/** What went wrong; in the next line what to do about it, if anything. */
const sentences: Record<Reason, (failed: Failed) => string> = {
  timeout: (failed) => {
    const { raise, resume } = failed.words;
    return `The agent was ended at its time limit of ${failed.turn.timeoutSeconds} s.\n${raise.timeout(failed)}, or ${resume} to continue.`;
  },
  stalled: (failed) => stalled(failed),
  auth: ({ words }) =>
    `The model provider refused the agent's credentials, or there are none.\nSet AGENT_CLI_OAUTH_TOKEN, or MODEL_API_AUTH_TOKEN, for the service and ${words.again}.`,
  rate_limited: ({ observed, words }) =>
    `A usage limit of the model provider is reached.\n${capital(words.again)}${after(observed.limitResetsAt)}${words.orResume}.`,
  api_error: ({ verdict, observed, words }) =>
    `The model could not be used${status(observed.result?.api_status ?? null)}.\n${
      verdict.retryable
        ? `It may pass: ${words.retry}.`
        : `Check the ${words.whose} model and MODEL_API_BASE_URL.`
    }`,
  max_turns: (failed) => {
    const { raise, resume } = failed.words;
    return `The agent stopped at its limit of turns.\n${raise.max_turns(failed)}, or ${resume} to continue.`;
  },
  budget: (failed) => {
    const { raise, resume } = failed.words;
    return `The agent stopped at its limit of cost.\n${raise.max_budget_usd(failed)}, or ${resume} to continue.`;
  },
  cli_not_found: ({ settings }) =>
    `The agent CLI "${settings.agentCliBinary}" could not be executed.\nCheck its installation or SERVICE_AGENT_CLI_BINARY.`,
  agent_error: ({ observed, words }) =>
    observed.facts.refused
      ? `The model refused the task.\nPut it in other words, or choose another model${words.inProfile}.`
      : "The agent reported that it failed.",
  agent_exit: (failed) => exit(failed),
  internal: ({ interruption, prompted, words }) =>
    words === jobWords && !prompted
      ? `The run could not be recorded and was ended before the agent got its task: ${reasonText(interruption)}.`
      : `What the agent said could not be passed on, so it was stopped: ${reasonText(interruption)}.\n${capital(words.resumeIts)} to continue.`,
};

const stalled = ({ cause, settings, words }: Failed): string =>
  cause === "first_output"
    ? `The agent gave no sign of life within ${settings.agentCliFirstOutputTimeout} s (SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT) and was ended.\n${capital(words.again)}.`
    : `The agent went silent for ${settings.agentCliIdleTimeout} s (SERVICE_AGENT_CLI_IDLE_TIMEOUT) and was ended.\n${capital(words.resumeIts)} to continue.`;

/** Claims no more than is known: the transcript may have the answer although the output was lost. */
const exit = ({
  ended: { exitCode, signal },
  observed: { isLineCut, stdoutBytes },
  words,
}: Failed): string => {
  const advice = `${capital(words.retry)}.`;
  if (signal !== null) {
    const memory = signal === "SIGKILL" ? " The system may have run out of memory." : "";
    return `The agent was killed by ${signal} before it gave a result.${memory}\n${advice}`;
  }
  const how = `The agent exited with code ${exitCode ?? "unknown"}`;
  if (isLineCut) {
    return `${how}, but its output breaks off in the middle of a line after ${stdoutBytes} bytes, so its result did not arrive. What it did is kept; its transcript may tell the rest.\n${advice}`;
  }
  return `${how} without giving a result.\n${exitCode === 0 ? advice : "Read the agent's own message below; svc doctor tries the agent CLI."}`;
};

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const after = (resetsAt: string | null): string => (resetsAt ? ` when it resets, at ${resetsAt}` : " later");
const status = (code: number | null): string => (code === null ? "" : ` (status ${code})`);

/** The reason of an aborted signal, or a thrown value, as the end of a sentence. */
const reasonText = (reason: unknown): string => {
  const text =
    reason instanceof Error ? reason.message : typeof reason === "string" ? reason : "no reason was given";
  return text.replace(/\.$/, "").replaceAll(/\s+/g, " ");
};

type Raise = (what: { profile: string }) => string;

/** What the reader, who submitted a job or sent a chat message, can do about a failure. */
type Words = {
  what: "run" | "turn";
  again: string;
  /** `again`, and alternatives. */
  retry: string;
  /** ` or …` with its comma in front, empty when there is nothing else to do. */
  orResume: string;
  resume: string;
  resumeIts: string;
  whose: string;
  inProfile: string;
  raise: { timeout: Raise; max_turns: Raise; max_budget_usd: Raise };
};

const jobWords: Words = {
  what: "run",
  again: "submit the job again",
  retry: "submit the job again or resume its session",
  orResume: ", or resume its session",
  resume: "resume the session",
  resumeIts: "resume its session",
  whose: "profile's",
  inProfile: " in the profile",
  raise: {
    timeout: ({ profile }) => `Raise \`timeout\` in the profile "${profile}" or SERVICE_AGENT_CLI_TIMEOUT`,
    max_turns: ({ profile }) => `Raise \`max_turns\` in the profile "${profile}"`,
    max_budget_usd: ({ profile }) => `Raise \`max_budget_usd\` in the profile "${profile}"`,
  },
};

const chatWords: Words = {
  what: "turn",
  again: "send the message again",
  retry: "send the message again",
  orResume: "",
  resume: "send another message",
  resumeIts: "send another message",
  whose: "agent's",
  inProfile: "",
  raise: {
    timeout: () => "Raise `timeout` in the request, in `agent.yml` or by AGENT_MODE_TIMEOUT",
    max_turns: () => "Raise `max_turns` in `agent.yml` (or of the completion), or AGENT_MODE_MAX_TURNS",
    max_budget_usd: () => "Raise `max_budget_usd` in `agent.yml`",
  },
};
