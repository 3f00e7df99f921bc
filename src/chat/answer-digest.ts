import { createHash } from "node:crypto";

export type AnswerDigest = {
  push: (content: string) => void;
  /** 64 hex digits; of all that was pushed until now. */
  digest: () => string;
};

/**
 * Digest by which an answer is known again when a client sends it back as history. Whitespace does not count: clients
 * trim answers and wrap them anew. The answer itself is not kept.
 */
export const createAnswerDigest = (): AnswerDigest => {
  const hash = createHash("sha256");
  return {
    // Code units, not UTF-8: a character may be cut between two pieces.
    push: (content) => void hash.update(content.replace(/\s+/g, ""), "utf16le"),
    digest: () => hash.copy().digest("hex"),
  };
};

/** The same of a whole answer, as an assistant message of a request has it. */
export const digestOf = (text: string): string => {
  const answer = createAnswerDigest();
  answer.push(text);
  return answer.digest();
};
