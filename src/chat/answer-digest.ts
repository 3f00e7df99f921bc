import { createHash } from "node:crypto";

/**
 * Digest that recognises an answer when a client sends it back as history. Whitespace does not count: clients trim
 * answers and rewrap them. The answer itself is not stored.
 */
export const createAnswerDigest = () => {
  const hash = createHash("sha256");
  // Hashing a word takes as long as a page.
  let waiting = "";
  const take = (): void => {
    hash.update(withoutSpace(waiting));
    waiting = "";
  };
  return {
    push: (content: string): void => {
      waiting += content;
      if (waiting.length > page) take();
    },
    /** 64 hex digits, of all that was pushed so far. */
    digest: (): string => {
      take();
      return hash.copy().digest("hex");
    },
  };
};

const page = 4096;

/** Code units, not UTF-8: a piece may end inside a character. Replacing millions of spaces in a text takes seconds. */
const withoutSpace = (content: string): Uint8Array => {
  const units = new Uint16Array(content.length);
  let kept = 0;
  for (let at = 0; at < content.length; at += 1) {
    const unit = content.charCodeAt(at);
    units[kept] = unit;
    kept += isSpace[unit] === 1 ? 0 : 1;
  }
  return new Uint8Array(units.buffer, 0, 2 * kept);
};

const isSpace = Uint8Array.from({ length: 65_536 }, (_, unit) =>
  /\s/.test(String.fromCharCode(unit)) ? 1 : 0,
);

/** The digest of a whole answer, as in an assistant message of a request. */
export const digestOf = (text: string): string => {
  const answer = createAnswerDigest();
  answer.push(text);
  return answer.digest();
};
