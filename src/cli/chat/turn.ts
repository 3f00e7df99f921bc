import type { ChatChunk } from "../../client/chat.ts";
import { ClientError } from "../../client/client-error.ts";
import type { Client } from "../../client/client.ts";
import { CliError } from "../failure.ts";
import type { Kind } from "../options.ts";
import { shellWord } from "../../view/sanitise.ts";

/** Options of every message: user, agent, conversation, display. */
export type TalkOptions = {
  conversation: string;
  model: string;
  user: string | null;
  /** Seconds; null: the service's limit. */
  timeout: number | null;
  /** Show text while the model writes it. */
  live: boolean;
  hide: ReadonlySet<Kind>;
  /** Whether to show tool results whole. */
  full: boolean;
};

type Asking = {
  client: Client;
  talk: TalkOptions;
  message: string;
  /** Stops the turn at the service, then closes the connection. */
  stop: AbortSignal;
};

/** How long the service may take to stop a turn before the connection is closed anyway, ms. */
const cancelMs = 2000;

/**
 * The chunks of the answer to one question, until it is complete or has been stopped.
 * @throws ClientError or CliError when there is no answer, or not all of it
 */
export async function* ask({ client, talk, message, stop }: Asking): AsyncGenerator<ChatChunk, void, void> {
  const connection = new AbortController();
  let id: string | undefined;
  const cancel = async (): Promise<void> => {
    // Closing the connection alone would leave the turn to the service's disconnect policy.
    if (id !== undefined)
      await client.cancelChat(id, { signal: AbortSignal.timeout(cancelMs) }).catch(() => undefined);
    connection.abort();
  };
  const onStop = (): void => void cancel();
  stop.addEventListener("abort", onStop, { once: true });
  try {
    for await (const chunk of client.chat({ ...question(message, talk), signal: connection.signal })) {
      id ??= chunk.id;
      yield chunk;
    }
  } catch (error) {
    if (!stop.aborted) throw chatFailure(error, talk, id !== undefined);
  } finally {
    stop.removeEventListener("abort", onStop);
  }
}

/** The request with `message`. The service knows the earlier ones. */
const question = (message: string, talk: TalkOptions): Parameters<Client["chat"]>[0] => ({
  body: {
    model: talk.model,
    messages: [{ role: "user", content: message }],
    ...(talk.timeout !== null && { timeout: talk.timeout }),
    // Always sent: the service may have another default.
    metadata: { live_text: String(isLive(talk)) },
  },
  headers: {
    "x-conversation-id": asHeader(talk.conversation),
    ...(talk.user !== null && { "x-user-id": asHeader(talk.user) }),
  },
});

// Live text has no kind: to omit narration or the final answer, both must come whole.
const isLive = ({ live, hide }: TalkOptions): boolean => live && !hide.has("narration") && !hide.has("final");

/** Header values are bytes, each written as a character. */
const asHeader = (id: string): string => Buffer.from(id, "utf8").toString("latin1");

/** Whether the service accepts this as an id of a conversation or user. It takes `{{…}}` for a template of a chat UI. */
export const isName = (id: string): boolean =>
  /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\uFFFD]{1,256}$/u.test(id) && id.trim() === id && !/\{\{.*\}\}/.test(id);

/** Lines of a tool's result that are shown. */
export const linesOfResults = ({ full }: TalkOptions): number => (full ? Infinity : 6);

/** The command that continues the conversation. */
export const resumeCommand = ({ conversation, user }: TalkOptions): string =>
  `svc chat --conversation ${shellWord(conversation)}${user === null ? "" : ` --user ${shellWord(user)}`}`;

/** What can be talked to, the loaded agent first. */
export const modelsOf = (client: Client, talk: TalkOptions): ReturnType<Client["chatModels"]> =>
  client.chatModels().catch((error: unknown) => {
    throw chatFailure(error, talk, false);
  });

/** The failure with what the user of a chat can do about it. `begun`: part of the answer had come. */
const chatFailure = (error: unknown, talk: TalkOptions, begun: boolean): unknown => {
  if (!(error instanceof ClientError)) return error;
  const { status, code, retryAfter, message } = error;
  const failure = (sentence: string): CliError => new CliError(sentence, { code, cause: error });
  if (status === 404 && code === "not_found") {
    return failure("This service has no agent to talk to: start it with AGENT_MODE=true svc serve");
  }
  if (status === 0 && begun)
    return failure(`${message}. The turn was stopped in mid-answer; continue with: ${resumeCommand(talk)}`);
  return retryAfter === undefined ? error : failure(`${message} (try again in ${retryAfter} s)`);
};
