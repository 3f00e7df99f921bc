import type { ChatAsk } from "../../client/chat.ts";
import type { Kind } from "./kinds.ts";

/** What is said with every message: who talks to which agent, in which conversation, and how. */
export type Talk = {
  conversation: string;
  model: string;
  user: string | null;
  /** Seconds; null: the service's limit. */
  timeout: number | null;
  /** Text as the model writes it. */
  live: boolean;
  hide: ReadonlySet<Kind>;
  /** Tool results whole. */
  full: boolean;
};

/** The request that says `message`. The service knows what was said before. */
export const askOf = (message: string, talk: Talk): Omit<ChatAsk, "signal"> => ({
  body: {
    model: talk.model,
    messages: [{ role: "user", content: message }],
    ...(talk.timeout !== null && { timeout: talk.timeout }),
    // Said in either case: the service may have a setting of its own.
    metadata: { live_text: String(isLive(talk)) },
  },
  headers: {
    "x-conversation-id": asHeader(talk.conversation),
    ...(talk.user !== null && { "x-user-id": asHeader(talk.user) }),
  },
});

/** Whether the service takes this for the id of a conversation or user. `{{…}}` it takes for a template of a chat UI. */
export const isName = (id: string): boolean =>
  /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\uFFFD]{1,256}$/u.test(id) && id.trim() === id && !/\{\{.*\}\}/.test(id);

/** Headers are bytes, each written as a character. */
const asHeader = (id: string): string => Buffer.from(id, "utf8").toString("latin1");

// Live text is not told apart: narration and the final answer come whole when one of them is to be left out.
const isLive = ({ live, hide }: Talk): boolean => live && !hide.has("narration") && !hide.has("final");

/** The command that goes on with the conversation. */
export const resumeCommand = ({ conversation, user }: Pick<Talk, "conversation" | "user">): string =>
  `svc chat --conversation ${quoted(conversation)}${user === null ? "" : ` --user ${quoted(user)}`}`;

const quoted = (word: string): string =>
  /^[\w.:@/-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
