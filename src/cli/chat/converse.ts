import type { ChatChunk } from "../../client/chat.ts";
import type { Client } from "../../client/client.ts";
import { exitCode, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { painter } from "../print.ts";
import { aligned, duration } from "../../view/columns.ts";
import { oneLine, sanitise } from "../../view/sanitise.ts";
import { openPrompt } from "./prompt.ts";
import { chooseAnswerView } from "../live/view.ts";
import { createChatEvents } from "./events.ts";
import { ask, chatFailure, linesOfResults, resumeCommand, type TalkOptions } from "./turn.ts";

type Terminal = { input: NodeJS.ReadStream; output: NodeJS.WriteStream };

type Conversation = { client: Client; talk: TalkOptions; baseUrl: string; terminal?: Terminal };

/** A conversation until the user leaves. Prints a failed turn, and asks for the next message. */
export const converse = async ({
  client,
  talk,
  baseUrl,
  terminal = { input: process.stdin, output: process.stdout },
}: Conversation): Promise<ExitCode> => {
  const { output } = terminal;
  const paint = painter(output);
  const say = (text: string): void => void output.write(`${text}\n`);
  // In the terminal's raw mode Ctrl-C is a key: this catches only signals from other processes.
  using interruption = catchInterruption();
  using prompt = openPrompt({ ...terminal, paint });
  let results: string[] = [];
  let turns = 0;
  const nextInterruption = (): AbortSignal => AbortSignal.any([prompt.interruption(), interruption.signal]);
  const stopped = paint("yellow", "Stopped");

  const answer = async (message: string): Promise<void> => {
    turns += 1;
    const begin = performance.now();
    results = [];
    const view = await chooseAnswerView(output, linesOfResults(talk));
    const eventsOf = createChatEvents(talk.hide);
    const onChunk = (chunk: ChatChunk): void => {
      for (const event of eventsOf(chunk)) {
        view.event(event);
        if (event.type === "tool_result") results.push(event.content);
      }
    };
    const stop = nextInterruption();
    const ending = await ask({ client, talk, message, stop, onChunk }).catch((error: unknown) => ({ error }));
    view.close();
    if (typeof ending === "object") say(paint("red", failureText(ending.error)));
    else if (ending === "stopped") say(stopped);
    else say(paint("dim", duration(performance.now() - begin)));
    say("");
  };

  const local = async (run: NonNullable<ReturnType<typeof localCommand>>): Promise<boolean> => {
    const signal = nextInterruption();
    try {
      const text = await run({ client, talk, results, signal });
      if (text === null) return false;
      say(`${text}\n`);
    } catch (error) {
      if (signal.aborted) say(stopped);
      else say(`${paint("red", failureText(chatFailure(error, talk, false)))}\n`);
    }
    return true;
  };

  say(`Talking with ${oneLine(talk.model)} at ${baseUrl}\nConversation ${talk.conversation}`);
  say(`${paint("dim", "/help lists commands; Ctrl-C stops an answer, Ctrl-D leaves")}\n`);
  for (;;) {
    const message = await prompt.ask(interruption.signal);
    if (message === null) break;
    const command = localCommand(message);
    if (command !== null) {
      if (!(await local(command))) break;
    } else if (message.trim() !== "") await answer(message);
  }
  if (turns > 0) say(`Go on with: ${resumeCommand(talk)}`);
  return interruption.signal.aborted ? interruption.exit() : exitCode.ok;
};

const failureText = (error: unknown): string =>
  sanitise(error instanceof Error ? error.message : String(error));

/** State that a command of the prompt can read and change. */
type Session = {
  client: Pick<Client, "chatModels">;
  talk: TalkOptions;
  /** Of the tools that the last answer called. */
  results: readonly string[];
  signal: AbortSignal;
};

/** Returns the text to print; null: the conversation ends. */
type Run = (session: Session, argument: string) => Promise<string | null> | string | null;

/** Commands that run here; the agent never sees them. */
const commands: [usage: string, what: string, run: Run][] = [
  ["/help", "list these", () => help()],
  [
    "/new",
    "begin a new conversation",
    ({ talk }) => {
      talk.conversation = crypto.randomUUID();
      return `New conversation ${talk.conversation}`;
    },
  ],
  [
    "/id",
    "show the conversation's id, and how to continue it later",
    ({ talk }) => `Conversation ${talk.conversation}\nGo on with: ${resumeCommand(talk)}`,
  ],
  [
    "/models",
    "list what can be talked to",
    async ({ client, talk, signal }) => {
      const models = await client.chatModels({ signal });
      return models.map(({ id }) => `${id === talk.model ? "*" : " "} ${oneLine(id)}`).join("\n");
    },
  ],
  [
    "/model NAME",
    "talk to this model from the next message on",
    ({ talk }, name) => {
      if (name !== "") talk.model = name;
      return `Model ${oneLine(talk.model)}`;
    },
  ],
  [
    "/full",
    "show the tool results of the last answer whole",
    ({ results }) => (results.length === 0 ? "No tool was called" : results.map(sanitise).join("\n\n")),
  ],
  ["/exit", "leave; you can continue the conversation later", () => null],
];

/** Words that the service removes from a message. */
const serviceToken = /^\/((show|hide)-(thinking|tools|narration|final|all)|stream-status)$/;

/** Runs the command in this message; null: it goes to the service. */
const localCommand = (message: string): ((session: Session) => ReturnType<Run>) | null => {
  const [word = "", ...rest] = message.trimEnd().split(" ");
  const command = commands.find(([usage]) => usage.split(" ")[0] === word);
  if (command !== undefined && (rest.length === 0 || word === "/model")) {
    return (session) => command[2](session, rest.join(" ").trim());
  }
  // Probably mistyped; sent to the agent it would cost money.
  if (/^\/[a-z-]*$/.test(message.trimEnd()) && !serviceToken.test(word)) {
    return () => `There is no command ${word}; /help lists them. With a space before it, it is sent as it is`;
  }
  return null;
};

const help = (): string =>
  [
    ...aligned(commands.map(([usage, what]) => [usage, what])),
    "",
    "Words in a message, alone or with a question, set what the agent shows:",
    "/show-thinking /hide-thinking /show-tools /hide-tools … /show-all /hide-all",
    "/stream-status shows what is set. The service keeps it for the agent: it holds",
    "for everyone who talks to it. For yourself alone: svc chat --hide.",
    "",
    "A line that ends in \\ continues in the next.",
    "Ctrl-C stops an answer; Ctrl-D leaves.",
  ].join("\n");
