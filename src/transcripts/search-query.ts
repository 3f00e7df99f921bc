import { ServiceError } from "../contract/errors.ts";

const mostTerms = 64;

export type FtsQuery = {
  /** Finds entries. */
  match: string;
  /** Finds any of the terms that are looked for. */
  any: string;
  /** These terms as they were typed. */
  words: string[];
};

/**
 * Words (all), "phrases", OR, -not and prefix*, as an expression of FTS5. What users typed stands in it only between
 * double quotes. OR binds the terms beside it: `a b OR c` is a and (b or c).
 * @throws ServiceError invalid_request when there is no word to look for
 */
export const toFtsQuery = (query: string): FtsQuery => {
  const words: string[] = [];
  const groups: string[][] = [];
  const excluded: string[] = [];
  let isAlternative = false;
  for (const { text, term, isExcluded, isOr } of wordsOf(query)) {
    const last = groups.at(-1);
    if (isOr) isAlternative = true;
    if (term === null) continue;
    if (!isExcluded) words.push(text);
    if (isExcluded) excluded.push(term);
    else if (isAlternative && last !== undefined) last.push(term);
    else groups.push([term]);
    isAlternative = false;
  }
  const count = groups.flat().length + excluded.length;
  if (groups.length === 0)
    throw new ServiceError(
      "invalid_request",
      "The query has no word to look for; give at least one without a -",
    );
  if (count > mostTerms)
    throw new ServiceError("invalid_request", `The query has ${count} words; give at most ${mostTerms}`);
  const all = groups.map((terms) => `(${terms.join(" OR ")})`).join(" AND ");
  const match = excluded.length === 0 ? all : `(${all}) NOT (${excluded.join(" OR ")})`;
  return { match, any: groups.flat().join(" OR "), words };
};

type Word = { text: string; term: string | null; isExcluded: boolean; isOr: boolean };

const wordsOf = function* (query: string): Generator<Word> {
  for (const [, not = "", phrase, word = ""] of query.matchAll(/(-?)(?:"([^"]*)(?:"|$)|([^\s"]+))/gu)) {
    const isOr = word === "OR" && not === "";
    const text = phrase ?? word.replace(/\*+$/, "");
    const term = isOr ? null : toTerm(phrase ?? word, phrase === undefined && word.endsWith("*"));
    yield { text, term, isExcluded: not !== "", isOr };
  }
};

/** Null: nothing in it is a word. */
const toTerm = (text: string, isPrefix: boolean): string | null => {
  // Controls end the expression.
  const clean = text.replaceAll(/[\p{Cc}\p{Cs}"]/gu, " ");
  if (isPrefix && /^[a-z0-9]\*+$/i.test(clean))
    throw new ServiceError("invalid_request", `${clean} begins too many words; give at least two characters`);
  return /[\p{L}\p{N}\p{Co}]/u.test(clean) ? `"${clean}"${isPrefix ? " *" : ""}` : null;
};
