import { ServiceError } from "../contract/errors.ts";

const mostTerms = 64;

export type FtsQuery = {
  match: string;
  /** The words that are looked for, without accents and capitals. */
  words: { word: string; isPrefix: boolean }[];
};

/**
 * Words (all), "phrases", OR, -not and prefix*, as an expression of FTS5. What users typed stands in it only between
 * double quotes. OR binds the terms beside it: `a b OR c` is a and (b or c).
 * @throws ServiceError invalid_request when there is no word to look for
 */
export const toFtsQuery = (query: string): FtsQuery => {
  const words: FtsQuery["words"] = [];
  const groups: string[][] = [];
  const excluded: string[] = [];
  let isAlternative = false;
  for (const { text, term, isExcluded, isOr } of wordsOf(query)) {
    const last = groups.at(-1);
    if (isOr) isAlternative = true;
    if (term === null) continue;
    const isPrefix = term.endsWith("*");
    if (!isExcluded) for (const word of folded(text).match(token) ?? []) words.push({ word, isPrefix });
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
  return { match, words };
};

const wordsOf = function* (query: string) {
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

/** How much of a text is shown before and after the beginning of the first hit, characters. */
const [before, after] = [100, 200];

/** The text around its first hit, with marks around all hits there; without one, its beginning. */
export const previewOf = (text: string, { words }: FtsQuery): string =>
  passageOf(surroundings(text, words), words) ??
  passageOf(text, words) ??
  text.slice(0, before + after).toWellFormed();

const token = /[\p{L}\p{N}\p{Co}][\p{L}\p{N}\p{Co}\p{M}]*/gu;

/** Neither case nor accents count. */
const folded = (text: string): string => text.normalize("NFD").replaceAll(/\p{M}/gu, "").toLowerCase();

const passageOf = (text: string, words: FtsQuery["words"]): string | null => {
  const isHit = (found: string): boolean => {
    const one = folded(found);
    return words.some(({ word, isPrefix }) => (isPrefix ? one.startsWith(word) : one === word));
  };
  const hit = text.matchAll(token).find(([found]) => isHit(found))?.index;
  if (hit === undefined) return null;
  const from = Math.max(0, hit - before);
  const marked = text
    .slice(from, hit + after)
    .replaceAll(token, (found) => (isHit(found) ? `»${found}«` : found));
  return `${from > 0 ? "…" : ""}${marked}${hit + after < text.length ? "…" : ""}`.toWellFormed();
};

/** The text around the first word that stands in it: to look at each word of a long text takes milliseconds. */
const surroundings = (text: string, words: FtsQuery["words"]): string => {
  const lower = text.toLowerCase();
  const places = words.map(({ word }) => lower.indexOf(word)).filter((place) => place >= 0);
  const from = Math.max(0, Math.min(...places, text.length) - 2 * before);
  return text.slice(from, from + 10 * after);
};
