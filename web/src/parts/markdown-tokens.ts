import { marked, type Token, type TokensList } from "marked";

/** Quotes, lists and emphasis inside one another. Deeper text was made to hang the page. */
const deepest = 40;

/** The parts of a short markdown text. Null: it nests too deep, and is to be shown as it was written. */
export const markdownTokens = (text: string): TokensList | null => {
  try {
    const tokens = marked.lexer(text);
    return isShallow(tokens) ? tokens : null;
  } catch {
    // Some text nests deeper than the stack.
    return null;
  }
};

const isShallow = (tokens: readonly Token[]): boolean => {
  let level = tokens;
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > deepest) return false;
    level = level.flatMap(insideOf);
  }
  return true;
};

const insideOf = (token: Token): Token[] => [
  ...("tokens" in token ? (token.tokens ?? []) : []),
  ...(token.type === "list" ? (token["items"] as Token[]) : []),
];
