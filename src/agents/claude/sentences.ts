import { cutFront } from "../../lib/tail-buffer.ts";
import type { ClaudeSettings } from "./settings.ts";
import { errorLimit, type Observed } from "./read-output.ts";
import { reasonText } from "./reason-text.ts";
import type { EndCause, Ended, Reason, Verdict } from "./classify.ts";

export type Failed = {
  verdict: Verdict;
  cause: EndCause;
  ended: Ended;
  observed: Pick<Observed, "result" | "facts" | "limitResetsAt" | "stdoutBytes" | "cutLine">;
  settings: ClaudeSettings;
  timeoutSeconds: number;
  profile: string;
  /** Why the caller ended the run, or why it could not be recorded. */
  interruption: unknown;
  stderr: string;
};

/** What went wrong and what to do about it, then the agent's own words: at most 10,240 bytes. */
export const errorText = (failed: Failed): string => {
  const { observed, stderr } = failed;
  const told = (observed.result?.text ?? "").trim();
  const parts = [sentence(failed)];
  if (told !== "") parts.push(`The agent said: ${cutFront(told, 2048)}`);
  const head = cutFront(parts.join("\n"), errorLimit - 1024);
  const errors = stderr.trim();
  if (errors === "") return head;
  const title = "\n\nstderr of the agent:\n";
  return head + title + cutFront(errors, errorLimit - Buffer.byteLength(head + title));
};

const sentence = (failed: Failed): string =>
  failed.verdict.reason === null
    ? `The run was ended by the service: ${reasonText(failed.interruption)}.`
    : sentences[failed.verdict.reason](failed);

const sentences: Record<Reason, (failed: Failed) => string> = {
  timeout: ({ timeoutSeconds, profile }) =>
    `The agent was ended at its time limit of ${timeoutSeconds} s. Raise \`timeout\` in the profile "${profile}" or SERVICE_AGENT_CLI_TIMEOUT, or resume the session to go on.`,
  stalled: (failed) => stalled(failed),
  auth: () =>
    "The model provider refused the agent's credentials, or there are none. Set AGENT_CLI_OAUTH_TOKEN, or MODEL_API_AUTH_TOKEN, for the service and submit the job again.",
  rate_limited: ({ observed }) =>
    `A usage limit of the model provider is reached. Submit the job again${after(observed.limitResetsAt)}, or resume its session.`,
  api_error: ({ verdict, observed }) =>
    `The model could not be used${status(observed.result?.api_status ?? null)}. ${
      verdict.retryable
        ? "It may pass: submit the job again or resume its session."
        : "Check the profile's model and MODEL_API_BASE_URL."
    }`,
  max_turns: ({ profile }) =>
    `The agent stopped at its limit of turns. Raise \`max_turns\` in the profile "${profile}", or resume the session to go on.`,
  budget: ({ profile }) =>
    `The agent stopped at its limit of cost. Raise \`max_budget_usd\` in the profile "${profile}", or resume the session to go on.`,
  cli_not_found: ({ settings }) =>
    `The agent CLI "${settings.agentCliBinary}" could not be executed. Check its installation or SERVICE_AGENT_CLI_BINARY.`,
  agent_error: ({ observed }) =>
    observed.facts.refused
      ? "The model refused the task. Put it in other words, or choose another model in the profile."
      : "The agent reported that it failed.",
  agent_exit: ({ ended, observed }) => exit(ended, observed),
  internal: ({ interruption }) =>
    `The run could not be recorded and was ended before the agent got its task: ${reasonText(interruption)}.`,
};

const stalled = ({ cause, settings }: Failed): string =>
  cause === "first_output"
    ? `The agent gave no sign of life within ${settings.agentCliFirstOutputTimeout} s (SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT) and was ended. Submit the job again.`
    : `The agent went silent for ${settings.agentCliIdleTimeout} s (SERVICE_AGENT_CLI_IDLE_TIMEOUT) and was ended. Resume its session to go on.`;

/** Says no more than is known: the answer may be in the transcript although it did not reach us. */
const exit = ({ exitCode, signal }: Ended, { cutLine, stdoutBytes }: Failed["observed"]): string => {
  if (signal !== null) {
    const memory = signal === "SIGKILL" ? " The system may have run out of memory." : "";
    return `The agent was killed by ${signal} before it gave a result.${memory} Submit the job again or resume its session.`;
  }
  const how = `The agent exited with code ${exitCode ?? "unknown"}`;
  if (cutLine) {
    return `${how}, but its output breaks off in the middle of a line after ${stdoutBytes} bytes, so its result did not arrive. What it did is kept; its transcript may tell the rest. Submit the job again or resume its session.`;
  }
  return `${how} without giving a result. ${exitCode === 0 ? "Submit the job again or resume its session." : "See the agent's own message."}`;
};

const after = (resetsAt: string | null): string => (resetsAt ? ` when it resets, at ${resetsAt}` : " later");
const status = (code: number | null): string => (code === null ? "" : ` (status ${code})`);
