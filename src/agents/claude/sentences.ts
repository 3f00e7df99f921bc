import { cutFront } from "../../lib/tail-buffer.ts";
import type { ClaudeSettings } from "./settings.ts";
import { errorLimit, type Observed } from "./observed.ts";
import { reasonText } from "./reason-text.ts";
import type { EndCause, Ended, Reason, Verdict } from "./classify.ts";
import { wordings, type Wording } from "./wording.ts";

export type Failed = {
  verdict: Verdict;
  cause: EndCause;
  ended: Ended;
  observed: Pick<Observed, "result" | "facts" | "limitResetsAt" | "stdoutBytes" | "cutLine">;
  settings: ClaudeSettings;
  timeoutSeconds: number;
  profile: string;
  /** To whom it is said. */
  wording: Wording;
  /** Why the caller ended the run, or why it could not be recorded. */
  interruption: unknown;
  stderr: string;
};

/** What went wrong and what to do about it, then the agent's own words: at most 10,240 bytes. */
export const errorText = (failed: Failed): string => {
  const { observed, stderr } = failed;
  // Of a turn that was interrupted it tells only that, in words for its makers.
  const isOwn = failed.wording === "run" || failed.cause === null;
  const told = isOwn ? (observed.result?.text ?? "").trim() : "";
  const parts = [sentence(failed)];
  // Of a run that was interrupted it says nothing but that it was.
  const isOwnEnd = failed.cause !== null && observed.result?.ok === false;
  if (told !== "" && !isOwnEnd) parts.push(`The agent said: ${cutFront(told, 2048)}`);
  const head = cutFront(parts.join("\n"), errorLimit - 1024);
  const errors = stderr.trim();
  if (errors === "") return head;
  const title = "\n\nstderr of the agent:\n";
  return head + title + cutFront(errors, errorLimit - Buffer.byteLength(head + title));
};

const sentence = (failed: Failed): string =>
  failed.verdict.reason === null
    ? `The ${failed.wording} was ended by the service: ${reasonText(failed.interruption)}.`
    : sentences[failed.verdict.reason](failed);

const sentences: Record<Reason, (failed: Failed) => string> = {
  timeout: (failed) => {
    const { raise, resume } = wordings[failed.wording];
    return `The agent was ended at its time limit of ${failed.timeoutSeconds} s. ${raise.timeout(failed)}, or ${resume} to go on.`;
  },
  stalled: (failed) => stalled(failed),
  auth: ({ wording }) =>
    `The model provider refused the agent's credentials, or there are none. Set AGENT_CLI_OAUTH_TOKEN, or MODEL_API_AUTH_TOKEN, for the service and ${wordings[wording].again}.`,
  rate_limited: ({ observed, wording }) =>
    `A usage limit of the model provider is reached. ${capital(wordings[wording].again)}${after(observed.limitResetsAt)}${wordings[wording].orResume}.`,
  api_error: ({ verdict, observed, wording }) =>
    `The model could not be used${status(observed.result?.api_status ?? null)}. ${
      verdict.retryable
        ? `It may pass: ${wordings[wording].retry}.`
        : `Check the ${wordings[wording].whose} model and MODEL_API_BASE_URL.`
    }`,
  max_turns: (failed) => {
    const { raise, resume } = wordings[failed.wording];
    return `The agent stopped at its limit of turns. ${raise.max_turns(failed)}, or ${resume} to go on.`;
  },
  budget: (failed) => {
    const { raise, resume } = wordings[failed.wording];
    return `The agent stopped at its limit of cost. ${raise.max_budget_usd(failed)}, or ${resume} to go on.`;
  },
  cli_not_found: ({ settings }) =>
    `The agent CLI "${settings.agentCliBinary}" could not be executed. Check its installation or SERVICE_AGENT_CLI_BINARY.`,
  agent_error: ({ observed, wording }) =>
    observed.facts.refused
      ? `The model refused the task. Put it in other words, or choose another model${wordings[wording].inProfile}.`
      : "The agent reported that it failed.",
  agent_exit: (failed) => exit(failed),
  internal: ({ interruption, wording }) =>
    wording === "run"
      ? `The run could not be recorded and was ended before the agent got its task: ${reasonText(interruption)}.`
      : `What the agent said could not be passed on, so it was stopped: ${reasonText(interruption)}. Send another message to go on.`,
};

const stalled = ({ cause, settings, wording }: Failed): string =>
  cause === "first_output"
    ? `The agent gave no sign of life within ${settings.agentCliFirstOutputTimeout} s (SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT) and was ended. ${capital(wordings[wording].again)}.`
    : `The agent went silent for ${settings.agentCliIdleTimeout} s (SERVICE_AGENT_CLI_IDLE_TIMEOUT) and was ended. ${capital(wordings[wording].resumeIts)} to go on.`;

/** Says no more than is known: the answer may be in the transcript although it did not reach us. */
const exit = ({
  ended: { exitCode, signal },
  observed: { cutLine, stdoutBytes },
  wording,
}: Failed): string => {
  const advice = `${capital(wordings[wording].retry)}.`;
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
