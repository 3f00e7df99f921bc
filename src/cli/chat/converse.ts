import type { Client } from "../../client/client.ts";
import { aligned, duration } from "../../view/columns.ts";
import { oneLine, sanitise } from "../../view/sanitise.ts";
import { exitCode, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { chooseAnswerView } from "../live/view.ts";
import { painter, print } from "../print.ts";
import { createChatEvents } from "./events.ts";
import { askMessage } from "./prompt.ts";
import { ask, linesOfResults, modelsOf, resumeCommand, type TalkOptions } from "./turn.ts";

type Conversation = { client: Client; talk: TalkOptions; baseUrl: string };

/** A conversation until the user leaves. Prints a failed turn, and asks for the next message. */
export const converse = async ({ client, talk, baseUrl }: Conversation): Promise<ExitCode> => {
  const paint = painter(process.stdout);
  const history: string[] = [];
  const session: Session = { client, talk, results: [] };
  print(`Talking with ${oneLine(talk.model)} at ${baseUrl}\nConversation ${talk.conversation}`);
  print(paint("dim", "/help lists commands; Ctrl-C stops an answer, Ctrl-D leaves"));
  for (;;) {
    print("");
    const message = await askMessage(history);
    if (message === null || message === "/exit") break;
    if (message.trim() === "") continue;
    using interruption = catchInterruption();
    const { signal } = interruption;
    try {
      const done = localCommand(message)?.(session) ?? answer(session, message, signal);
      print((await done) ?? paint("yellow", "Stopped"));
    } catch (error) {
      print(paint("red", sanitise(error instanceof Error ? error.message : String(error))));
    }
    if (interruption.signalName() === "SIGTERM") return interruption.exit();
  }
  print(`Go on with: ${resumeCommand(talk)}`);
  return exitCode.ok;
};

/** State that a command of the prompt can read and change; `results`: of the tools that the last answer called. */
type Session = { client: Client; talk: TalkOptions; results: string[] };

/** Resolves to the time that it took; null: it was stopped. */
const answer = async (session: Session, message: string, stop: AbortSignal): Promise<string | null> => {
  const { client, talk } = session;
  const begin = performance.now();
  session.results = [];
  const view = await chooseAnswerView(process.stdout, linesOfResults(talk));
  const eventsOf = createChatEvents(talk.hide);
  try {
    for await (const chunk of ask({ client, talk, message, stop }))
      for (const event of eventsOf(chunk)) {
        view.event(event);
        if (event.type === "tool_result") session.results.push(event.content);
      }
  } finally {
    view.close();
  }
  return stop.aborted ? null : painter(process.stdout)("dim", duration(performance.now() - begin));
};

type Run = (session: Session, argument: string) => Promise<string> | string;

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
    async ({ client, talk }) => {
      const models = await modelsOf(client, talk);
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
    ({ results }) => results.map(sanitise).join("\n\n") || "No tool was called",
  ],
  ["/exit", "leave; you can continue the conversation later", () => ""],
];

/** Words that the service removes from a message. */
const serviceToken = /^\/((show|hide)-(thinking|tools|narration|final|all)|stream-status)$/;

/** Runs the command in this message; undefined: it goes to the service. */
const localCommand = (message: string): ((session: Session) => ReturnType<Run>) | undefined => {
  const [word = "", ...rest] = message.trimEnd().split(" ");
  const command = commands.find(([usage]) => usage.split(" ")[0] === word);
  if (command !== undefined && (rest.length === 0 || word === "/model"))
    return (session) => command[2](session, rest.join(" ").trim());
  // Probably mistyped; sent to the agent it would cost money.
  if (/^\/[a-z-]*$/.test(message.trimEnd()) && !serviceToken.test(word))
    return () => `There is no command ${word}; /help lists them. With a space before it, it is sent as it is`;
  return undefined;
};

const help = (): string =>
  [
    ...aligned(commands.map(([usage, what]) => [usage, what])),
    "",
    "/show-thinking, /hide-tools, … /stream-status in a message set and show what the agent shows",
    "to everyone who talks to it. For yourself alone: svc chat --hide.",
    "A line that ends in \\ continues in the next.",
  ].join("\n");
