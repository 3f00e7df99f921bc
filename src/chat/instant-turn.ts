import type { ChatRequest, ChatTurn } from "./chat.ts";
import { createChunks, doneEvent, type AnswerHead } from "./chunks.ts";
import { createCompletionObject } from "./completion-object.ts";

/** An answer that is there at once, without an agent. */
export const instantTurn = (
  head: AnswerHead,
  { includeUsage }: Pick<ChatRequest, "includeUsage">,
  { kind, text }: { kind: "stream_config" | "final"; text: string },
): ChatTurn => ({
  id: head.id,
  conversation: null,
  async *stream() {
    const chunks = createChunks(head);
    const content = kind === "final" ? chunks.delta({ kind, text }) : chunks.streamConfig(text);
    yield new TextEncoder().encode(chunks.role() + content + chunks.stop(null, includeUsage) + doneEvent);
  },
  whole: async () => {
    const object = createCompletionObject(head);
    object.take({ kind: "final", text });
    return object.finish(null);
  },
});
