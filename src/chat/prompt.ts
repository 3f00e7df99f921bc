import { randomBytes } from "node:crypto";
import type { TurnPart } from "../agents/agent.ts";
import type { ChatMessage } from "./chat.ts";

/** What a session that goes on is told: all that came after the last answer. */
export const newsOf = (messages: readonly ChatMessage[]): TurnPart[] =>
  joined(messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1));

/** What a fresh session is told: the same, after the conversation up to there if there was one. */
export const wholeOf = (messages: readonly ChatMessage[]): TurnPart[] => {
  const answered = messages.findLastIndex(({ role }) => role === "assistant") + 1;
  const news = newsOf(messages);
  if (answered === 0) return news;
  // What was said must not look like the end of what was said: nobody can write a tag that is made now.
  const tag = `conversation-${randomBytes(8).toString("hex")}`;
  const history = messages
    .slice(0, answered)
    .flatMap(({ role, content }) => [text(`${names[role]}:\n`), ...content, text("\n\n")]);
  return merged([text(`${opening}<${tag}>\n`), ...history, text(`</${tag}>${closing}`), ...news]);
};

const names = { user: "User", assistant: "Assistant" } as const;
const opening = "This conversation was begun elsewhere. What was said so far:\n\n";
const closing = "\n\nGo on with it. The user now says:\n\n";

const text = (value: string): TurnPart => ({ type: "text", text: value });

/** Messages of one speaker as one. */
const joined = (messages: readonly ChatMessage[]): TurnPart[] =>
  merged(messages.flatMap(({ content }, index) => (index === 0 ? content : [text("\n\n"), ...content])));

/** Neighbouring texts as one. */
const merged = (parts: readonly TurnPart[]): TurnPart[] => {
  const result: TurnPart[] = [];
  for (const part of parts) {
    const last = result.at(-1);
    if (part.type === "text" && last?.type === "text")
      result[result.length - 1] = text(last.text + part.text);
    else result.push(part);
  }
  return result;
};
