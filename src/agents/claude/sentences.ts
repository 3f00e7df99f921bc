import { cutFront } from "../../lib/tail-buffer.ts";
import type { Reason, Verdict } from "./classify.ts";
import type { EndedTurn } from "./outcome.ts";

type Judged = EndedTurn & { verdict: Verdict };
type Failed = Judged & { words: Words };

export const errorLimit = 10_240;

/** What went wrong and what to do about it, then the agent's own words: at most 10,240 bytes. */
export const errorText = (judged: Judged): string => {
  const { observed } = judged;
  const isJob = judged.turn.isLast === true;
  const failed: Failed = { ...judged, words: isJob ? jobWords : chatWords };
  // Of a turn that was interrupted it tells only that, in words for its makers.
  const told = isJob || failed.cause === null ? (observed.result?.text ?? "").trim() : "";
  const parts = [sentence(failed)];
  // Of a run that was interrupted it says nothing but that it was.
  const isOwnEnd = failed.cause !== null && observed.result?.ok === false;
  if (told !== "" && !isOwnEnd) parts.push(`The agent said: ${cutFront(told, 2048)}`);
  const head = cutFront(parts.join("\n"), errorLimit - 1024);
  const errors = observed.stderr.text().trim();
  if (errors === "") return head;
  const title = "\n\nstderr of the agent:\n";
  return head + title + cutFront(errors, errorLimit - Buffer.byteLength(head + title));
};

const sentence = (failed: Failed): string =>
  failed.verdict.reason === null
    ? `The ${failed.words.what} was ended by the service: ${reasonText(failed.interruption)}.`
    : sentences[failed.verdict.reason](failed);

const sentences: Record<Reason, (failed: Failed) => string> = {
  timeout: (failed) => {
    const { raise, resume } = failed.words;
    return `The agent was ended at its time limit of ${failed.turn.timeoutSeconds} s. ${raise.timeout(failed)}, or ${resume} to go on.`;
  },
  stalled: (failed) => stalled(failed),
  auth: ({ words }) =>
    `The model provider refused the agent's credentials, or there are none. Set AGENT_CLI_OAUTH_TOKEN, or MODEL_API_AUTH_TOKEN, for the service and ${words.again}.`,
  rate_limited: ({ observed, words }) =>
    `A usage limit of the model provider is reached. ${capital(words.again)}${after(observed.limitResetsAt)}${words.orResume}.`,
  api_error: ({ verdict, observed, words }) =>
    `The model could not be used${status(observed.result?.api_status ?? null)}. ${
      verdict.retryable
        ? `It may pass: ${words.retry}.`
        : `Check the ${words.whose} model and MODEL_API_BASE_URL.`
    }`,
  max_turns: (failed) => {
    const { raise, resume } = failed.words;
    return `The agent stopped at its limit of turns. ${raise.max_turns(failed)}, or ${resume} to go on.`;
  },
  budget: (failed) => {
    const { raise, resume } = failed.words;
    return `The agent stopped at its limit of cost. ${raise.max_budget_usd(failed)}, or ${resume} to go on.`;
  },
  cli_not_found: ({ settings }) =>
    `The agent CLI "${settings.agentCliBinary}" could not be executed. Check its installation or SERVICE_AGENT_CLI_BINARY.`,
  agent_error: ({ observed, words }) =>
    observed.facts.refused
      ? `The model refused the task. Put it in other words, or choose another model${words.inProfile}.`
      : "The agent reported that it failed.",
  agent_exit: (failed) => exit(failed),
  internal: ({ interruption, prompted, words }) =>
    words === jobWords && !prompted
      ? `The run could not be recorded and was ended before the agent got its task: ${reasonText(interruption)}.`
      : `What the agent said could not be passed on, so it was stopped: ${reasonText(interruption)}. ${capital(words.resumeIts)} to go on.`,
};

const stalled = ({ cause, settings, words }: Failed): string =>
  cause === "first_output"
    ? `The agent gave no sign of life within ${settings.agentCliFirstOutputTimeout} s (SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT) and was ended. ${capital(words.again)}.`
    : `The agent went silent for ${settings.agentCliIdleTimeout} s (SERVICE_AGENT_CLI_IDLE_TIMEOUT) and was ended. ${capital(words.resumeIts)} to go on.`;

/** Says no more than is known: the answer may be in the transcript although it did not reach us. */
const exit = ({ ended: { exitCode, signal }, observed: { cutLine, stdoutBytes }, words }: Failed): string => {
  const advice = `${capital(words.retry)}.`;
  if (signal !== null) {
    const memory = signal === "SIGKILL" ? " The system may have run out of memory." : "";
    return `The agent was killed by ${signal} before it gave a result.${memory} ${advice}`;
  }
  const how = `The agent exited with code ${exitCode ?? "unknown"}`;
  if (cutLine) {
    return `${how}, but its output breaks off in the middle of a line after ${stdoutBytes} bytes, so its result did not arrive. What it did is kept; its transcript may tell the rest. ${advice}`;
  }
  return `${how} without giving a result. ${exitCode === 0 ? advice : "See the agent's own message."}`;
};

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const after = (resetsAt: string | null): string => (resetsAt ? ` when it resets, at ${resetsAt}` : " later");
const status = (code: number | null): string => (code === null ? "" : ` (status ${code})`);

/** Why a signal was aborted, or what was thrown, as the end of a sentence. */
export const reasonText = (reason: unknown): string => {
  const text =
    reason instanceof Error ? reason.message : typeof reason === "string" ? reason : "no reason was given";
  return text.replace(/\.$/, "");
};

type Raise = (what: { profile: string }) => string;

/** What the reader, who submitted a job or sent a message of a conversation, can do about a failure. */
type Words = {
  what: "run" | "turn";
  again: string;
  /** `again`, and what else may help. */
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
