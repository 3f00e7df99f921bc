import { ClientError } from "../../client/client-error.ts";
import { CliError } from "../failure.ts";
import { resumeCommand, type Talk } from "./talk.ts";

/** The failure with what the user of a chat can do about it. `begun`: some of the answer had come. */
export const chatFailure = (
  error: unknown,
  talk: Pick<Talk, "conversation" | "user">,
  begun: boolean,
): unknown => {
  if (!(error instanceof ClientError)) return error;
  const { status, code, retryAfter } = error;
  if (status === 404 && code === "not_found") {
    const way = "start it with AGENT_MODE=true svc serve, or ask one that has it on";
    return new CliError(`This service has no agent to talk to: ${way}`, { code, cause: error });
  }
  if (status === 0 && begun) {
    const sentence = `${error.message}. The turn was stopped in mid-answer; go on with: ${resumeCommand(talk)}`;
    return new CliError(sentence, { code, cause: error });
  }
  if (retryAfter !== undefined) {
    return new CliError(`${error.message} (try again in ${retryAfter} s)`, { code, cause: error });
  }
  return error;
};
