import { entryTypes } from "../contract/transcript-entry.ts";
import { maskSecrets } from "../lib/secret-shapes.ts";
import { beginning } from "./answer-size.ts";
import { linesOf } from "./chunk-store.ts";
import { addTotals, learn, entryTotals, type Totals } from "./facts.ts";
import { entriesPerSource, rangeOf } from "./index-schema.ts";
import { claimOf, digestOf, lineOf, saidBy } from "./line-owners.ts";
import { readLines, type Placed } from "./read-line.ts";
import type { SourceRow } from "./session-row.ts";
import type { Sql } from "./sqlite-file.ts";
import { isShown, searchedText, type Line } from "./transcript-line.ts";

/** `lines` takes the digests of lines that other files may have, too. */
export type Added = SourceRow & { from: number; bytes: Buffer; lines: number[] };

/** Writes the entries of a source's new lines. */
export const addEntries = (sql: Sql, added: Added): void => {
  for (const { begin: at, line: text } of linesOf(added.bytes)) {
    const { placed, isDamaged } = readLines(added.source.kind, text);
    if (isDamaged) added.facts.damaged += 1;
    for (const one of placed) addEntry(sql, added, { ...one, begin: added.from + at + one.begin });
  }
};

const addEntry = (sql: Sql, added: Added, placed: Placed): void => {
  const { number, source, facts, lines } = added;
  const { line } = placed;
  const has = (digest: number | null): boolean =>
    digest !== null &&
    sql.first("SELECT 1 FROM entries WHERE line = ? AND id BETWEEN ? AND ?", digest, ...rangeOf(number)) !==
      undefined;
  const known = lineOf(line);
  // The CLI writes lines again after it was reopened.
  if (has(known)) return;
  const leaf = addTitle(sql, added, line);
  if (leaf !== null) lines.push(leaf);
  const claim = claimOf(line, source.session_id);
  const { isEntry, isCopied } = learn(facts, line, claim > 0);
  addTokens(sql, added, line.facts.totalTokens);
  const isForeign = leaf === null ? claim > 0 : line.session !== source.session_id && !has(leaf);
  if (!isEntry || line.type === null || (line.facts.title !== undefined && isForeign)) return;
  const digest = known ?? saidBy(facts, line, has);
  if (digest !== null) lines.push(digest);
  const id = number * entriesPerSource + facts.entries * entryTypes.length + entryTypes.indexOf(line.type);
  insertEntry(sql, added, { ...placed, id, digest, claim: isCopied ? 2 : claim });
  sql.run("INSERT INTO texts (rowid, text) VALUES (?, ?)", id, maskSecrets(searchedText(line)));
};

/** Codex tells the sum of a session: what is new in it was spent up to the last entry. A subagent begins with 0. */
const addTokens = (sql: Sql, { number, facts }: Added, total: number | undefined): void => {
  if (total === undefined || facts.entries === 0) return;
  const spent = total < facts.totalTokens ? total : total - facts.totalTokens;
  facts.totalTokens = total;
  const last = number * entriesPerSource + facts.entries * entryTypes.length;
  const range = [last, last + entryTypes.length - 1] as const;
  sql.run("UPDATE entries SET tokens = tokens + ? WHERE id BETWEEN ? AND ?", spent, ...range);
  if (sql.first("SELECT 1 FROM entries WHERE inherited = 0 AND id BETWEEN ? AND ?", ...range) !== undefined)
    facts.totals.tokens += spent;
};

type Inserted = Placed & { id: number; digest: number | null; claim: number };

const insertEntry = (sql: Sql, added: Added, { id, line, begin, length, digest, claim }: Inserted): void => {
  const { id: bill = "", tokens = 0, cost = null } = line.facts.bill ?? {};
  const [turn, calls] = [Number(isAnswer(line)), line.sidechain ? 0 : line.calls.length];
  const answer = digestOf(bill);
  if (answer !== null) supersede(sql, added, answer);
  sql.run(
    `INSERT INTO entries (id, at, shown, begin, length, line, claim, inherited, prompt, calls, answer, turn, tokens, cost)
     VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)`,
    id,
    line.at,
    Number(added.source.kind !== "subagent" && isShown(line)),
    begin,
    length,
    digest,
    claim,
    line.isPrompt ? beginning(line.content, longestSummary) : null,
    calls,
    answer,
    turn,
    tokens,
    cost,
  );
  const [prompts, costs] = [Number(line.isPrompt), Number(cost !== null)];
  addTotals(added.facts.totals, { prompts, answers: turn, calls, tokens, cost: cost ?? 0, costs }, 1);
};

/** The last of several lines of one answer says what it cost. */
const supersede = (sql: Sql, { number, facts }: Added, answer: number): void => {
  const before = sql.first<Totals & { id: number; inherited: 0 | 1 }>(
    `SELECT id, inherited, ${entryTotals} FROM entries WHERE answer = ? AND id BETWEEN ? AND ?`,
    answer,
    ...rangeOf(number),
  );
  if (before === undefined) return;
  sql.run("UPDATE entries SET answer = NULL, turn = 0, tokens = 0, cost = NULL WHERE id = ?", before.id);
  if (before.inherited === 0) addTotals(facts.totals, { ...before, prompts: 0, calls: 0 }, -1);
};

/** Codex tells no cost of an answer: what it says is one; thinking and calls are none. */
const isAnswer = ({ type, sidechain, content, facts }: Line): boolean =>
  type === "assistant" && !sidechain && (facts.bill !== undefined || content !== "");

const longestSummary = 200;

/**
 * Stores the title that a line tells, in the place of the one before of its kind.
 * @returns the digest of its leaf, by which `settleLines` finds the session that it is about
 */
const addTitle = (
  sql: Sql,
  { number, source }: Added,
  { session, facts: { title } }: Line,
): number | null => {
  if (title === undefined) return null;
  const leaf = digestOf(title.leaf);
  const named = session || (leaf === null ? source.session_id : null);
  const before = "DELETE FROM titles WHERE source = ? AND kind = ? AND leaf IS ? AND named IS ?";
  sql.run(before, number, title.kind, leaf, named);
  const row = "INSERT INTO titles VALUES (?1, ?2, ?2, ?3, ?4, ?5)";
  sql.run(row, number, named, leaf, title.kind, beginning(title.text, longestSummary));
  return leaf;
};
