import type { Client } from "../../client/client.ts";
import { oneLine } from "../text/sanitise.ts";
import { aligned } from "../text/columns.ts";
import { resumeCommand, type Talk } from "./turn.ts";

/** What a command of the prompt can see and change. */
export type Session = {
  client: Pick<Client, "chatModels">;
  talk: Talk;
  /** Tool results of the last answer that were not shown whole. */
  shortened: readonly string[];
  signal: AbortSignal;
};

type LocalCommand = {
  usage: string;
  what: string;
  /** What is to be printed; null: the conversation ends. */
  run: (session: Session, argument: string) => Promise<string | null> | string | null;
};

/** Commands that are answered here; the agent never sees them. */
const commands: Record<string, LocalCommand> = {
  "/help": { usage: "/help", what: "this list", run: () => help() },
  "/new": {
    usage: "/new",
    what: "begin a new conversation",
    run: ({ talk }) => {
      talk.conversation = crypto.randomUUID();
      return `New conversation ${talk.conversation}`;
    },
  },
  "/id": {
    usage: "/id",
    what: "the conversation's id, and how to go on with it later",
    run: ({ talk }) => `Conversation ${talk.conversation}\nGo on with: ${resumeCommand(talk)}`,
  },
  "/models": {
    usage: "/models",
    what: "what can be talked to",
    run: async ({ client, talk, signal }) => {
      const models = await client.chatModels({ signal });
      return models.map(({ id }) => `${id === talk.model ? "*" : " "} ${oneLine(id)}`).join("\n");
    },
  },
  "/model": {
    usage: "/model NAME",
    what: "talk to this model from the next message on",
    run: ({ talk }, name) => {
      if (name !== "") talk.model = name;
      return `Model ${oneLine(talk.model)}`;
    },
  },
  "/full": {
    usage: "/full",
    what: "show whole what was shortened of the last answer's tool results",
    run: ({ shortened }) => (shortened.length === 0 ? "Nothing was shortened" : shortened.join("\n\n")),
  },
  "/exit": { usage: "/exit", what: "leave; the conversation can be gone on with", run: () => null },
};

/** Tokens that the service takes out of a message, see docs; in the order of its help. */
const tokens = [
  "/show-thinking",
  "/hide-thinking",
  "/show-tools",
  "/hide-tools",
  "/show-narration",
  "/hide-narration",
  "/show-final",
  "/hide-final",
  "/show-all",
  "/hide-all",
  "/stream-status",
];

/** The command that this message is, with its argument; null: it goes to the service. */
export const localCommand = (
  message: string,
): ((session: Session) => Promise<string | null> | string | null) | null => {
  const [word = "", ...rest] = message.trimEnd().split(" ");
  const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
  if (command !== undefined && (rest.length === 0 || word === "/model")) {
    return (session) => command.run(session, rest.join(" ").trim());
  }
  // Most likely mistyped; sent to the agent it would cost money.
  if (/^\/[a-z-]*$/.test(message.trimEnd()) && !tokens.includes(word)) {
    return () => `There is no command ${word}; /help lists them. With a space before it, it is sent as it is`;
  }
  return null;
};

const help = (): string =>
  [
    ...aligned(Object.values(commands).map(({ usage, what }) => [usage, what])),
    "",
    "What the agent shows is set by words in a message, alone or with a question:",
    `${tokens.slice(0, 4).join(" ")} … /show-all /hide-all`,
    "/stream-status tells what is set. The service keeps it for the agent: it holds",
    "for everyone who talks to it. For yourself alone: svc chat --hide.",
    "",
    "A line that ends in \\ goes on in the next.",
    "Ctrl-C stops an answer; Ctrl-D leaves.",
  ].join("\n");
