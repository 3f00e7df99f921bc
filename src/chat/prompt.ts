import { randomBytes } from "node:crypto";
import type { TurnPart } from "../agents/agent.ts";
import type { ChatMessage } from "./chat.ts";
import type { ConversationRecord } from "../store/conversation-store.ts";
import { digestOf } from "./answer-digest.ts";
import { unknownAnswer } from "./engine-turn.ts";

/** Prompt for a session that continues: all messages after the last answer. */
export const followUpOf = (messages: readonly ChatMessage[]): TurnPart[] =>
  joined(messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1));

/** Prompt for a new session: the same, after the earlier conversation if there was one. */
export const openingOf = (messages: readonly ChatMessage[]): TurnPart[] => {
  const answered = messages.findLastIndex(({ role }) => role === "assistant") + 1;
  const news = followUpOf(messages);
  if (answered === 0) return news;
  // Quoted messages must not end the quotation: nobody can guess a random tag.
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

/** Joins messages of one role. */
const joined = (messages: readonly ChatMessage[]): TurnPart[] =>
  merged(messages.flatMap(({ content }, index) => (index === 0 ? content : [text("\n\n"), ...content])));

/** Joins neighbouring texts. */
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

/**
 * Whether the answers in `messages` are those of the recorded session, which may then continue. So it may for a caller
 * that sends no answers: the first message alone resumes a conversation.
 */
export const isOfSession =
  (messages: readonly ChatMessage[]) =>
  ({ answers }: Pick<ConversationRecord, "answers">): boolean => {
    const given = messages.filter(({ role }) => role === "assistant");
    if (given.length === 0) return true;
    // The caller may have got nothing of an answer that was cut short, or any part of it.
    const certain = answers.filter((answer) => answer !== unknownAnswer);
    let found = 0;
    for (const { content } of given) {
      const answer = textOf(content);
      const isNext = [answer, withoutReasoning(answer)].some((text) => digestOf(text) === certain[found]);
      if (isNext) found += 1;
    }
    return found === certain.length && given.length <= answers.length;
  };

const textOf = (content: readonly TurnPart[]): string =>
  content.map((part) => (part.type === "text" ? part.text : "")).join("");

/**
 * An answer without the reasoning that a UI has written into it: between `<think>` and `</think>`, or as a `<details>` of
 * the type reasoning. A tag without an end begins none.
 */
const withoutReasoning = (text: string): string => {
  let [result, from] = ["", 0];
  for (const { 0: tag, 1: think, index } of text.matchAll(reasoningStart)) {
    // A tag within the reasoning.
    if (index < from) continue;
    const end = `</${think ?? "details"}>`;
    const endsAt = text.indexOf(end, index + tag.length);
    if (endsAt === -1) break;
    result += text.slice(from, index);
    from = endsAt + end.length;
  }
  return result + text.slice(from);
};

const reasoningStart =
  /<(?:(think|thinking|thought|reason|reasoning)|details (?=[^<>]{0,200}type="reasoning")[^<>]{0,300})>/g;
