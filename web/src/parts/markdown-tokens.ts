import { marked, type Token, type TokensList } from "marked";

/** Quotes and lists inside one another on a line; and in all, with emphasis. Deeper text was made to hang the page. */
const deepest = 16;
const deepestInAll = 40;

/** Signs of emphasis in a piece without an empty line: each is compared with each. */
const mostSigns = 1000;

const mostTokens = 10_000;

const nested = new RegExp(`^(?:[ \\t]*(?:>|(?:[-*+]|\\d{1,9}[.)])[ \\t])){${deepest},}`, "m");

/** The parts of a markdown text. Null: it would hold the page up, and is to be shown as it was written. */
export const markdownTokens = (text: string): TokensList | null => {
  if (nested.test(text) || text.split(/\n\s*\n/).some(isOverloaded)) return null;
  const tokens = marked.lexer(text);
  return isBounded(tokens) ? tokens : null;
};

const isOverloaded = (piece: string): boolean => (piece.match(/[*_~]/g)?.length ?? 0) > mostSigns;

const isBounded = (tokens: readonly Token[]): boolean => {
  let count = 0;
  let level = [...tokens];
  for (let depth = 0; level.length > 0; depth += 1) {
    count += level.length;
    if (depth > deepestInAll || count > mostTokens) return false;
    level = level.flatMap(insideOf);
  }
  return true;
};

const insideOf = (token: Token): Token[] => [
  ...("tokens" in token ? (token.tokens ?? []) : []),
  ...(token.type === "list" ? (token["items"] as Token[]) : []),
];
