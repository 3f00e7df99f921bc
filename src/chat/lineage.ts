import type { TurnPart } from "../agents/agent.ts";
import type { ConversationRecord } from "../store/conversation-store.ts";
import { digestOf } from "./answer-digest.ts";
import type { ChatMessage } from "./chat.ts";
import { unknownAnswer } from "./engine-turn.ts";

/**
 * Whether the answers in `messages` are those that the session on record gave: then it may go on with them. A caller that
 * tells of no answers goes on, too: by its first message alone a conversation is resumed.
 */
export const isOfSession =
  (messages: readonly ChatMessage[]) =>
  ({ answers }: Pick<ConversationRecord, "answers">): boolean => {
    const told = messages.filter(({ role }) => role === "assistant");
    if (told.length === 0) return true;
    // Of an answer that was cut short the caller may know nothing.
    const certain = answers.filter((answer) => answer !== unknownAnswer).length;
    if (told.length < certain || told.length > answers.length) return false;
    return inOrder(
      told.map(({ content }) => digestOf(textOf(content))),
      answers,
    );
  };

/** Whether `told` is `answers` without some of those that may be anything. */
const inOrder = (told: readonly string[], answers: readonly string[]): boolean => {
  // Which of those cut short the caller left out is not told: each is matched or passed over, whichever fits.
  let reachable = new Set([0]);
  for (const answer of answers) {
    const next = new Set<number>();
    for (const at of reachable) {
      if (answer === unknownAnswer) next.add(at);
      if (at < told.length && (answer === unknownAnswer || answer === told[at])) next.add(at + 1);
    }
    reachable = next;
  }
  return reachable.has(told.length);
};

const textOf = (content: readonly TurnPart[]): string =>
  content.map((part) => (part.type === "text" ? part.text : "")).join("");
