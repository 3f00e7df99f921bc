import { entryTypes } from "../contract/transcript-entry.ts";
import { maskSecrets } from "../lib/secret-shapes.ts";
import { beginning } from "./answer-size.ts";
import { linesOf } from "./chunk-store.ts";
import { learn } from "./facts.ts";
import { entriesPerSource, rangeOf } from "./index-schema.ts";
import { claimOf, digestOf, lineOf } from "./line-owners.ts";
import { readLines } from "./read-line.ts";
import type { SourceRow } from "./session-row.ts";
import type { Sql } from "./sqlite-file.ts";
import { isShown, searchedText, type Line, type LineFacts } from "./transcript-line.ts";

/** `lines` takes the digests of lines that other files may have, too. */
export type Added = SourceRow & { from: number; bytes: Buffer; lines: number[] };

/** Writes the entries of a source's new lines. */
export const addEntries = (sql: Sql, added: Added): void => {
  for (const { begin: at, line: text } of linesOf(added.bytes)) {
    const { placed, isDamaged } = readLines(added.source.kind, text);
    if (isDamaged) added.facts.damaged += 1;
    for (const { begin, length, line } of placed)
      addEntry(sql, added, { line, begin: added.from + at + begin, length });
  }
};

type Placed = { line: Line; begin: number; length: number };

const addEntry = (
  sql: Sql,
  { number, source, facts, lines }: Added,
  { line, begin, length }: Placed,
): void => {
  const has = (digest: number): boolean =>
    sql.first("SELECT 1 FROM entries WHERE line = ? AND id BETWEEN ? AND ?", digest, ...rangeOf(number)) !==
    undefined;
  const digest = lineOf(line);
  // The CLI writes lines again after it was reopened.
  if (digest !== null && has(digest)) return;
  const { title, bill } = line.facts;
  const leaf = title === undefined || title.leaf === "" ? null : digestOf(title.leaf);
  if (title !== undefined) addTitle(sql, { number, session: line.session || source.session_id, title, leaf });
  if (leaf !== null) lines.push(leaf);
  const { isEntry, isCopied } = learn(facts, line);
  const isForeign =
    title !== undefined && (leaf === null ? claimOf(line, source.session_id) > 0 : !has(leaf));
  if (!isEntry || line.type === null || isForeign) return;
  if (digest !== null && !isCopied) lines.push(digest);
  const id = number * entriesPerSource + facts.entries * entryTypes.length + entryTypes.indexOf(line.type);
  const isTurn = line.type === "assistant" && !line.sidechain && (bill !== undefined || line.content !== "");
  sql.run(
    `INSERT INTO entries (id, at, shown, begin, length, line, claim, inherited, prompt, calls, answer, turn, tokens, cost)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    id,
    line.at,
    source.kind !== "subagent" && isShown(line) ? 1 : 0,
    begin,
    length,
    isCopied ? null : digest,
    claimOf(line, source.session_id),
    isCopied ? 1 : 0,
    line.isPrompt ? beginning(line.content, longestSummary) : null,
    line.sidechain ? 0 : line.calls.length,
    bill === undefined || bill.id === "" ? id : digestOf(bill.id),
    isTurn ? 1 : 0,
    bill?.tokens ?? 0,
    bill?.cost ?? null,
  );
  sql.run("INSERT INTO texts (rowid, text) VALUES (?, ?)", id, maskSecrets(searchedText(line)));
};

const longestSummary = 200;

type Title = { number: number; session: string; title: LineFacts["title"] & object; leaf: number | null };

/** Stores a title, in the place of the one before of its kind. A leaf tells later which session it is about. */
const addTitle = (sql: Sql, { number, session, title, leaf }: Title): void => {
  const about = leaf === null ? session : null;
  const before =
    "DELETE FROM titles WHERE source = ? AND kind = ? AND leaf IS ? AND (leaf NOT NULL OR session_id = ?)";
  sql.run(before, number, title.kind, leaf, about);
  const row = "INSERT INTO titles (source, session_id, leaf, kind, text) VALUES (?, ?, ?, ?, ?)";
  sql.run(row, number, about, leaf, title.kind, beginning(title.text, longestSummary));
};
