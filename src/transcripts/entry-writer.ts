import { entryTypes } from "../contract/transcript-entry.ts";
import { maskSecrets } from "../lib/secret-shapes.ts";
import { beginning } from "./answer-size.ts";
import { linesOf } from "./chunk-store.ts";
import type { Source } from "./corpus.ts";
import { learn } from "./facts.ts";
import { entriesPerSource, rangeOf } from "./index-schema.ts";
import { claimOf, digestOf, lineOf } from "./line-owners.ts";
import { readLines, type Placed } from "./read-line.ts";
import type { SourceRow } from "./session-row.ts";
import type { Sql } from "./sqlite-file.ts";
import { isShown, searchedText, type Line } from "./transcript-line.ts";

/** `lines` takes the digests of lines that other files may have, too. */
export type Added = Omit<SourceRow, "totals"> & { from: number; bytes: Buffer; lines: number[] };

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
  const has = (known: number): boolean =>
    sql.first("SELECT 1 FROM entries WHERE line = ? AND id BETWEEN ? AND ?", known, ...rangeOf(number)) !==
    undefined;
  const digest = lineOf(line);
  // The CLI writes lines again after it was reopened.
  if (digest !== null && has(digest)) return;
  const leaf = addTitle(sql, added, line);
  if (leaf !== null) lines.push(leaf);
  const { isEntry, isCopied } = learn(facts, line);
  const isForeign = leaf === null ? claimOf(line, source.session_id) > 0 : !has(leaf);
  if (!isEntry || line.type === null || (line.facts.title !== undefined && isForeign)) return;
  if (digest !== null && !isCopied) lines.push(digest);
  const id = number * entriesPerSource + facts.entries * entryTypes.length + entryTypes.indexOf(line.type);
  insertEntry(sql, id, { ...placed, source, isCopied, digest: isCopied ? null : digest });
  sql.run("INSERT INTO texts (rowid, text) VALUES (?, ?)", id, maskSecrets(searchedText(line)));
};

type Inserted = Placed & { source: Source; isCopied: boolean; digest: number | null };

const insertEntry = (sql: Sql, id: number, entry: Inserted): void => {
  const { line, begin, length, source, isCopied, digest } = entry;
  const { bill } = line.facts;
  sql.run(
    `INSERT INTO entries (id, at, shown, begin, length, line, claim, inherited, prompt, calls, answer, turn, tokens, cost)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    id,
    line.at,
    Number(source.kind !== "subagent" && isShown(line)),
    begin,
    length,
    digest,
    claimOf(line, source.session_id),
    Number(isCopied),
    line.isPrompt ? beginning(line.content, longestSummary) : null,
    line.sidechain ? 0 : line.calls.length,
    digestOf(bill?.id ?? "") ?? id,
    Number(isAnswer(line)),
    bill?.tokens ?? 0,
    bill?.cost ?? null,
  );
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
  const about = leaf === null ? session || source.session_id : null;
  const before =
    "DELETE FROM titles WHERE source = ? AND kind = ? AND leaf IS ? AND (leaf NOT NULL OR session_id = ?)";
  sql.run(before, number, title.kind, leaf, about);
  const row = "INSERT INTO titles (source, session_id, leaf, kind, text) VALUES (?, ?, ?, ?, ?)";
  sql.run(row, number, about, leaf, title.kind, beginning(title.text, longestSummary));
  return leaf;
};
