import { chatFailure } from "../chat/chat-failure.ts";
import { converse } from "../chat/converse.ts";
import type { Kind } from "../chat/kinds.ts";
import { oneTurn } from "../chat/one-turn.ts";
import { readMessage } from "../chat/read-message.ts";
import { isName, type Talk } from "../chat/talk.ts";
import { connect } from "../connect.ts";
import type { ExitCode } from "../exit-code.ts";
import { CliError, usageError } from "../failure.ts";
import { report } from "../report.ts";
import type { Client } from "../../client/client.ts";

export type ChatOptions = {
  conversation?: string;
  model?: string;
  timeout?: number;
  user?: string;
  hide?: Kind[];
  full?: boolean;
  live: boolean;
  json?: boolean;
};

/** `svc chat` */
export const chat = async (argument: string | undefined, options: ChatOptions): Promise<ExitCode> => {
  try {
    return await talkOrAsk(argument, options);
  } catch (error) {
    if (options.json !== true) throw error;
    // A line like those of the chunks.
    return report(error, { json: "line" });
  }
};

const talkOrAsk = async (argument: string | undefined, options: ChatOptions): Promise<ExitCode> => {
  const json = options.json ?? false;
  checkName("--conversation", options.conversation);
  checkName("--user", options.user);
  const isTalk = argument === undefined && process.stdin.isTTY;
  if (isTalk && (json || !process.stdout.isTTY)) {
    throw usageError("A conversation needs a terminal for its answers: give a message for a single one");
  }
  const message = isTalk ? null : await readMessage(argument, process.stdin);
  const { client, baseUrl } = connect();
  const talk: Talk = {
    conversation: options.conversation ?? crypto.randomUUID(),
    model: "",
    user: options.user ?? null,
    timeout: options.timeout ?? null,
    live: options.live,
    hide: new Set(options.hide),
    full: options.full ?? false,
  };
  talk.model = options.model ?? (await loadedAgent(client, talk));
  return message === null
    ? converse({ client, talk, baseUrl })
    : oneTurn({ client, talk, message, json, isNew: options.conversation === undefined });
};

const checkName = (option: string, name: string | undefined): void => {
  if (name !== undefined && !isName(name)) {
    throw usageError(`${option} must have 1 to 256 printable characters, no blanks at its ends and no {{ }}`);
  }
};

const loadedAgent = async (client: Client, talk: Talk): Promise<string> => {
  const models = await client.chatModels().catch((error: unknown) => {
    throw chatFailure(error, talk, false);
  });
  const [first] = models;
  if (first === undefined) throw new CliError("The service has no model to talk to: name one with --model");
  return first.id;
};
