import { ServiceError } from "../contract/errors.ts";

const mostTerms = 64;

export type FtsQuery = {
  /** Finds entries. */
  match: string;
  /** Finds in a text, in Unicode's form NFD, the terms that are looked for. */
  pattern: RegExp;
};

/**
 * Words (all), "phrases", OR, -not and prefix*, as an expression of FTS5. What users typed stands in it only between
 * double quotes. OR binds the terms beside it: `a b OR c` is a and (b or c).
 * @throws ServiceError invalid_request when there is no word to look for
 */
export const toFtsQuery = (query: string): FtsQuery => {
  const patterns: string[] = [];
  const groups: string[][] = [];
  const excluded: string[] = [];
  let isAlternative = false;
  for (const { text, term, isExcluded, isOr } of wordsOf(query)) {
    const last = groups.at(-1);
    if (isOr) isAlternative = true;
    if (term === null) continue;
    if (!isExcluded) patterns.push(patternOf(text, term));
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
  return { match, pattern: new RegExp(patterns.join("|"), "giu") };
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

/** Accents do not count; between the words of a phrase stands anything that is none. */
const patternOf = (text: string, term: string): string => {
  const words =
    text
      .normalize("NFD")
      .replaceAll(/\p{M}/gu, "")
      .match(/[\p{L}\p{N}\p{Co}]+/gu) ?? [];
  const letters = words.map((word) => word.replaceAll(/./gsu, "$&\\p{M}*"));
  const end = term.endsWith("*") ? "" : "(?![\\p{L}\\p{N}])";
  return `(?<![\\p{L}\\p{N}])${letters.join("[^\\p{L}\\p{N}]+")}${end}`;
};

/** How much of a text is shown before and after the beginning of the first hit, characters. */
const [before, after] = [100, 200];

/** The text around its first hit, with marks around all hits there; without one, its beginning. */
export const previewOf = (text: string, { pattern }: FtsQuery): string => {
  const whole = text.normalize("NFD");
  const hit = whole.search(pattern);
  if (hit < 0) return text.slice(0, before + after).toWellFormed();
  const from = Math.max(0, hit - before);
  const passage = whole.slice(from, hit + after).replaceAll(pattern, "»$&«");
  const left = from > 0 ? "…" : "";
  return `${left}${passage}${hit + after < whole.length ? "…" : ""}`.normalize("NFC").toWellFormed();
};
