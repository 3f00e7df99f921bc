import type { Usage } from "../contract/job.ts";
import { type AnswerHead, publicUsage } from "./chunks.ts";
import { type Delta, contentOf } from "./delta.ts";

export type CompletionObject = {
  /** A visible delta; pass no hidden one. */
  take: (delta: Delta) => void;
  /** The `chat.completion` object as JSON text. */
  finish: (usage: Usage | null) => string;
};

/** Collects the answer to a request without `stream`: its content is that of the stream, joined. */
export const createCompletionObject = ({ id, created, model }: AnswerHead): CompletionObject => {
  const content: string[] = [];
  const reasoning: string[] = [];
  return {
    take: (delta) => {
      if (delta.kind === "thinking") reasoning.push(delta.text);
      else content.push(contentOf(delta));
    },
    finish: (usage) => {
      const message = {
        role: "assistant",
        content: content.join(""),
        refusal: null,
        ...(reasoning.length > 0 && { reasoning_content: reasoning.join("") }),
      };
      return JSON.stringify({
        id,
        object: "chat.completion",
        created,
        model,
        choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
        usage: publicUsage(usage),
      });
    },
  };
};
