import type { Client } from "../../client/client.ts";
import { connect } from "../connect.ts";
import { CliError, exitCode, usageError, type ExitCode } from "../failure.ts";
import { report } from "../report.ts";
import { catchInterruption } from "../interruption.ts";
import type { Kind } from "../options.ts";
import { note, print } from "../print.ts";
import { readText } from "../commands/input.ts";
import { converse } from "./converse.ts";
import { createChatEvents } from "./events.ts";
import { chooseAnswerView, quietView } from "../live/view.ts";
import { ask, isName, linesOfResults, modelsOf, resumeCommand, type TalkOptions } from "./turn.ts";

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
    // In the form of the chunks.
    return report(error, { json: "line" });
  }
};

const talkOrAsk = async (argument: string | undefined, options: ChatOptions): Promise<ExitCode> => {
  const json = options.json ?? false;
  checkName("--conversation", options.conversation);
  checkName("--user", options.user);
  const isTalk = argument === undefined && process.stdin.isTTY;
  if (isTalk && (json || !process.stdout.isTTY)) {
    throw usageError(
      "A conversation needs a terminal for its answers: give a message to ask a single question",
    );
  }
  const question = isTalk
    ? null
    : await readText(argument ?? "-", {
        noun: "message",
        // More than any model reads at once.
        longest: 1_000_000,
        empty: "say something to the agent",
      });
  const { client, baseUrl } = connect();
  const talk: TalkOptions = {
    conversation: options.conversation ?? crypto.randomUUID(),
    model: "",
    user: options.user ?? null,
    timeout: options.timeout ?? null,
    live: options.live,
    hide: new Set(options.hide),
    full: options.full ?? false,
  };
  talk.model = options.model ?? (await loadedAgent(client, talk));
  return question === null
    ? converse({ client, talk, baseUrl })
    : oneTurn({ client, talk, message: question, json, isNew: options.conversation === undefined });
};

const checkName = (option: string, name: string | undefined): void => {
  if (name !== undefined && !isName(name)) {
    throw usageError(`${option} must have 1 to 256 printable characters, no blanks at its ends and no {{ }}`);
  }
};

const loadedAgent = async (client: Client, talk: TalkOptions): Promise<string> => {
  const [first] = await modelsOf(client, talk);
  if (first === undefined) throw new CliError("The service has no model to talk to: name one with --model");
  return first.id;
};

type OneTurn = { client: Client; talk: TalkOptions; message: string; json: boolean; isNew: boolean };

/** Sends the message, prints the answer on stdout (`json`: its chunks, one a line), notes on stderr. Throws failures. */
const oneTurn = async ({ client, talk, message: question, json, isNew }: OneTurn): Promise<ExitCode> => {
  const view = json
    ? quietView(process.stderr)
    : await chooseAnswerView(process.stdout, linesOfResults(talk));
  const eventsOf = createChatEvents(talk.hide);
  using interruption = catchInterruption();
  try {
    for await (const chunk of ask({ client, talk, message: question, stop: interruption.signal }))
      if (json) print(JSON.stringify(chunk));
      else eventsOf(chunk).forEach(view.event);
  } finally {
    view.close();
  }
  const isStopped = interruption.signal.aborted;
  const resume = `Go on with: ${resumeCommand(talk)}`;
  if (isStopped) note(`Stopped. ${resume}`);
  else if (isNew && !json) note(resume);
  return isStopped ? interruption.exit() : exitCode.ok;
};
