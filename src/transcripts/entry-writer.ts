import { entryTypes } from "../contract/transcript-entry.ts";
import { maskSecrets } from "../lib/secret-shapes.ts";
import { linesOf, type ChunkStore } from "./chunk-store.ts";
import { count, learn, shortTitle, titlePrompt, type ReplaceBill } from "./facts.ts";
import { entriesPerSource } from "./index-schema.ts";
import { claimOf, digestOf, lineOf, precedes, twinAt, twinsOf, type Twin } from "./line-owners.ts";
import { readLine, readLines } from "./read-line.ts";
import { toSourceRow, type SourceRow, type StoredSource } from "./session-row.ts";
import type { Sql } from "./sqlite-file.ts";
import { emptyLine, isShown, searchedText, type Line } from "./transcript-line.ts";

export type Added = SourceRow & { from: number; bytes: Buffer };

/**
 * Writes the entries of sources. A line that several sources have counts and is found in one of them; whichever comes first,
 * the result is the same. Changes to other sources are gathered until `settle`.
 */
export const createEntryWriter = (sql: Sql, chunkStore: ChunkStore) => {
  /** Sources whose facts change because another one had a line before them, or has it no more. */
  const touched = new Map<number, SourceRow>();
  const renamed = new Set<string>();

  const rowOf = (number: number): SourceRow => {
    const known = touched.get(number);
    if (known !== undefined) return known;
    const stored = sql.first<StoredSource>(
      "SELECT number, record, facts FROM sources WHERE number = ?",
      number,
    );
    if (stored === undefined) throw new Error(`the source ${number} of an entry is missing`);
    const row = toSourceRow(stored);
    touched.set(number, row);
    return row;
  };
  const lineAt = ({ source, kind, begin, length }: Twin): Line =>
    readLine(kind, chunkStore.reader()(source, begin, length)) ?? emptyLine;

  const inherit = (twin: Twin): void => {
    sql.run("UPDATE entries SET inherited = 1 WHERE id = ?", twin.id);
    sql.run("DELETE FROM texts WHERE rowid = ?", twin.id);
    count(rowOf(twin.source).facts, lineAt(twin), -1, billsOf(sql, twin.source));
  };
  const disinherit = (twin: Twin): void => {
    const line = lineAt(twin);
    sql.run("UPDATE entries SET inherited = 0 WHERE id = ?", twin.id);
    insertText(sql, twin.id, line);
    count(rowOf(twin.source).facts, line, 1, billsOf(sql, twin.source));
    claimTitles(sql, twin.session, [twin.id, twin.id]);
  };

  return {
    add: ({ number, source, facts, from, bytes }: Added): void => {
      const replaceBill = billsOf(sql, number);
      const first = number * entriesPerSource + (facts.entries + 1) * entryTypes.length;
      const write = (line: Line, place: { begin: number; length: number }): void => {
        const [digest, claim] = [lineOf(line), claimOf(line, source.session_id)];
        const { session_id: session, kind, name, created = 0, modified } = source;
        const own = {
          at: line.at,
          claim,
          inherited: 0,
          ...place,
          source: number,
          session,
          kind,
          name,
          created,
          modified,
        };
        const twins = twinsOf(sql, digest, own);
        // The CLI writes lines again after it was reopened.
        if (twins.some((twin) => twin.source === number)) return;
        const isOwn = noteTitle(sql, { line, source: number, session, renamed });
        const { isEntry, isCopied } = learn(facts, line);
        if (!isEntry || !isOwn || line.type === null) return;
        const id =
          number * entriesPerSource + facts.entries * entryTypes.length + entryTypes.indexOf(line.type);
        const isInherited = isCopied || twins.some((twin) => precedes(twin, own));
        sql.run(
          "INSERT INTO entries (id, at, shown, begin, length, line, claim, inherited) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
          id,
          line.at,
          kind !== "subagent" && isShown(line) ? 1 : 0,
          place.begin,
          place.length,
          digest,
          claim,
          Number(isInherited),
        );
        if (isInherited) return;
        for (const twin of twins) if (twin.inherited === 0) inherit(twin);
        insertText(sql, id, line);
        count(facts, line, 1, replaceBill);
      };
      for (const { begin, line: text } of linesOf(bytes)) {
        const { placed, isDamaged } = readLines(source.kind, text);
        if (isDamaged) facts.damaged += 1;
        for (const { begin: within, length, line } of placed)
          write(line, { begin: from + begin + within, length });
      }
      const last = number * entriesPerSource + (facts.entries + 1) * entryTypes.length;
      claimTitles(sql, source.session_id, [first, last]);
    },

    /** Entries elsewhere that take the place of those of a source, to be given to `replace` after its removal. */
    heirs: (number: number): number[] =>
      sql
        .all<{ id: number }>(
          `SELECT DISTINCT heir.id FROM entries AS gone JOIN entries AS heir ON heir.line = gone.line
           WHERE gone.id BETWEEN ? AND ? AND gone.inherited = 0 AND heir.inherited = 1 AND heir.id NOT BETWEEN ? AND ?`,
          ...rangeOf(number),
          ...rangeOf(number),
        )
        .map(({ id }) => id),
    replace: (heirs: readonly number[]): void => {
      for (const id of heirs) {
        const heir = twinAt(sql, id);
        if (heir === undefined) continue;
        const line = lineOf(lineAt(heir));
        if (!twinsOf(sql, line, heir).some((twin) => twin.id !== id && precedes(twin, heir)))
          disinherit(heir);
      }
    },

    /** Stores what has changed elsewhere. @returns the sessions that are to be derived anew */
    settle: (): string[] => {
      const sessions = [...renamed];
      for (const { number, source, facts } of touched.values()) {
        facts.prompt = promptOf(sql, chunkStore, { number, source });
        sql.run("UPDATE sources SET facts = ? WHERE number = ?", JSON.stringify(facts), number);
        sessions.push(source.session_id);
      }
      touched.clear();
      renamed.clear();
      return sessions;
    },
  };
};

/** The ids of a source's entries. */
export const rangeOf = (number: number): [number, number] => [
  number * entriesPerSource,
  (number + 1) * entriesPerSource - 1,
];

const insertText = (sql: Sql, id: number, line: Line): void =>
  void sql.run("INSERT INTO texts (rowid, text) VALUES (?, ?)", id, maskSecrets(searchedText(line)));

type StoredBill = { tokens: number; cost: number | null };

const billsOf =
  (sql: Sql, source: number): ReplaceBill =>
  (id, bill) => {
    const answer = digestOf(id);
    const before = sql.first<StoredBill>(
      "SELECT tokens, cost FROM bills WHERE source = ? AND answer = ?",
      source,
      answer,
    );
    if (before !== undefined) sql.run("DELETE FROM bills WHERE source = ? AND answer = ?", source, answer);
    if (bill !== null)
      sql.run(
        "INSERT INTO bills (source, answer, tokens, cost) VALUES (?, ?, ?, ?)",
        source,
        answer,
        bill.tokens,
        bill.cost,
      );
    return before ?? null;
  };

type Titled = { line: Line; source: number; session: string; renamed: Set<string> };

/** Stores the title that a line tells. @returns false: it is about another session, or one that is not known yet */
const noteTitle = (sql: Sql, { line, source, session: own, renamed }: Titled): boolean => {
  const { title } = line.facts;
  if (title === undefined) return true;
  const leaf = title.leaf === "" ? null : digestOf(title.leaf);
  const session = leaf === null ? line.session || own : ownerOf(sql, leaf);
  sql.run(
    "DELETE FROM titles WHERE source = ? AND kind = ? AND session_id IS ? AND leaf IS ?",
    source,
    title.kind,
    session,
    leaf,
  );
  sql.run(
    "INSERT INTO titles (source, session_id, leaf, kind, text) VALUES (?, ?, ?, ?, ?)",
    source,
    session,
    leaf,
    title.kind,
    shortTitle(title.text),
  );
  if (session !== null && session !== own) renamed.add(session);
  return session === own;
};

const ownerOf = (sql: Sql, line: number): string | null =>
  sql.first<{ session_id: string }>(
    `SELECT session_id FROM entries JOIN sources ON sources.number = entries.id / ${entriesPerSource}
     WHERE line = ? AND inherited = 0`,
    line,
  )?.session_id ?? null;

/** Titles whose leaf is among these entries are about their session. */
const claimTitles = (sql: Sql, session: string, [first, last]: [number, number]): void =>
  void sql.run(
    "UPDATE titles SET session_id = ? WHERE leaf IN (SELECT line FROM entries WHERE id BETWEEN ? AND ? AND inherited = 0)",
    session,
    first,
    last,
  );

/** The prompt that names a session, of those that count. */
const promptOf = (
  sql: Sql,
  chunkStore: ChunkStore,
  { number, source }: Pick<SourceRow, "number" | "source">,
): string => {
  const rows = sql.all<{ begin: number; length: number }>(
    `SELECT begin, length FROM entries WHERE id BETWEEN ? AND ? AND shown = 1 AND inherited = 0
       AND id % ${entryTypes.length} = ${entryTypes.indexOf("user")} ORDER BY id LIMIT 10`,
    ...rangeOf(number),
  );
  const read = chunkStore.reader();
  const prompts = rows.map(
    ({ begin, length }) => readLine(source.kind, read(number, begin, length))?.content ?? "",
  );
  return prompts.reduce(titlePrompt, "");
};
