import { maskSecrets } from "../lib/secret-shapes.ts";
import { linesOf, type ChunkStore } from "./chunk-store.ts";
import { follows, type Chunk, type Corpus, type Source } from "./corpus.ts";
import { addEntries, type Added } from "./entry-writer.ts";
import { noFacts, type Facts } from "./facts.ts";
import { rangeOf } from "./index-schema.ts";
import { textOf, timeOf, type Json } from "./json.ts";
import { settleLines } from "./line-owners.ts";
import { recordsOf } from "./records.ts";
import { chooseSources, refreshSession, sourcesWhere, type SourceRow } from "./session-row.ts";
import type { Sql } from "./sqlite-file.ts";
import { withoutData } from "./transcript-line.ts";

export type IndexWriter = Corpus & {
  chunks: (id: string, from: number) => Iterable<Uint8Array>;
  /** Up to where a shared corpus has been stored here. */
  position: () => Position;
  setPosition: (position: Position) => void;
};

/** `epoch`: which log it is a position in; `id`: that of its last entry that was read. */
type Position = { epoch: string; id: string };

/** Stores sources with their chunks, and everything that is derived from them, in one transaction each. */
export const createIndexWriter = (sql: Sql, chunkStore: ChunkStore): IndexWriter => {
  const read = (id: string): SourceRow | undefined => sourcesWhere(sql, "id = ?", id)[0];

  const put = (source: Source, chunk: Chunk | undefined): boolean => {
    const stored = read(source.id);
    if (!follows(stored?.source, source, chunk)) return false;
    const changed = stored === undefined ? [] : sessionsOf(sql, stored);
    const isReplaced = stored !== undefined && stored.source.generation !== source.generation;
    const lines = isReplaced ? removeDerived(stored.number) : [];
    const record = JSON.stringify(source);
    const insert = "INSERT INTO sources (record, facts) VALUES (?, '{}')";
    const number = stored?.number ?? Number(sql.run(insert, record).lastInsertRowid);
    const facts = stored === undefined || isReplaced ? noFacts() : stored.facts;
    if (chunk !== undefined && chunk.bytes.length > 0) {
      const bytes = Buffer.from(chunk.bytes.buffer, chunk.bytes.byteOffset, chunk.bytes.byteLength);
      chunkStore.append(number, chunk.from, bytes);
      addLines[source.kind]?.(sql, { number, source, facts, from: chunk.from, bytes, lines });
    }
    for (const slug of facts.slugs)
      sql.run("INSERT OR IGNORE INTO slugs (slug, source) VALUES (?, ?)", slug, number);
    // A file that is read anew may be of another session.
    const update = "UPDATE sources SET record = ?, facts = ?, counted = counted * ? WHERE number = ?";
    sql.run(update, record, JSON.stringify(facts), Number(!isReplaced), number);
    refresh([...changed, ...sessionsOf(sql, { number, source })], lines);
    return true;
  };

  const refresh = (sessions: readonly string[], lines: readonly number[]): void => {
    const settled = settleLines(sql, [...lines, ...sessions.flatMap((id) => chooseSources(sql, id))]);
    for (const id of new Set([...sessions, ...settled])) refreshSession(sql, id);
  };

  /** @returns the digests of lines that are gone here, and may be elsewhere */
  const removeDerived = (number: number): number[] => {
    const range = rangeOf(number);
    sql.run("DELETE FROM texts WHERE rowid IN (SELECT id FROM entries WHERE id BETWEEN ? AND ?)", ...range);
    const entries = "DELETE FROM entries WHERE id BETWEEN ? AND ? RETURNING line";
    const gone = sql.all<{ line: number | null }>(entries, ...range);
    for (const table of ["origins", "slugs", "prompts", "titles"])
      sql.run(`DELETE FROM ${table} WHERE source = ?`, number);
    chunkStore.remove(number);
    return gone.flatMap(({ line }) => line ?? []);
  };

  return {
    sources: async () => {
      sql.renew();
      const rows = sql.all<{ id: string; record: string }>("SELECT id, record FROM sources");
      return new Map(rows.map(({ id, record }) => [id, JSON.parse(record) as Source]));
    },
    source: async (id) => {
      sql.renew();
      return read(id)?.source;
    },
    put: async (source, chunk) => sql.transaction(() => put(source, chunk)),
    chunks: (id, from) => chunkStore.chunks(read(id)?.number ?? -1, from),
    position: () => sql.first<Position>("SELECT epoch, id FROM position") ?? { epoch: "", id: "0" },
    setPosition: ({ epoch, id }) =>
      void sql.run("INSERT OR REPLACE INTO position (number, epoch, id) VALUES (1, ?, ?)", epoch, id),
    remove: async (ids) => {
      for (const id of ids)
        sql.transaction(() => {
          const stored = read(id);
          if (stored === undefined) return;
          const changed = sessionsOf(sql, stored);
          const lines = removeDerived(stored.number);
          sql.run("DELETE FROM sources WHERE number = ?", stored.number);
          refresh(changed, lines);
        });
      if (ids.length > 0) sql.shrink();
    },
  };
};

/** The sessions that this source says something about. */
const sessionsOf = (sql: Sql, { number, source }: Pick<SourceRow, "number" | "source">): string[] => {
  const others = sql.all<{ session_id: string }>(
    `SELECT DISTINCT session_id FROM ${source.kind === "origins" ? "origins" : "titles"} WHERE source = ? AND session_id IS NOT NULL`,
    number,
  );
  const own = source.session_id === "" ? [] : [source.session_id];
  return [...own, ...others.map(({ session_id }) => session_id)];
};

/** The records of lines, which are counted where something of them is damaged. */
const recordsIn = function* (
  bytes: Buffer,
  facts: Facts,
  isRecord: (record: Json) => boolean,
): Generator<Json> {
  for (const { line } of linesOf(bytes)) {
    const { pieces, isDamaged } = recordsOf(line, isRecord);
    if (isDamaged) facts.damaged += 1;
    for (const { record } of pieces) yield record;
  }
};

const addOrigins = (sql: Sql, { number, facts, bytes }: Added): void => {
  for (const origin of recordsIn(bytes, facts, ({ session_id }) => typeof session_id === "string")) {
    const [session, kind] = [textOf(origin["session_id"]), textOf(origin["kind"])];
    if (session === "" || !["job", "chat", "service"].includes(kind)) continue;
    sql.run(
      "INSERT INTO origins (source, session_id, kind, job_id, at, project) VALUES (?, ?, ?, ?, ?, ?)",
      number,
      session,
      kind,
      textOf(origin["job_id"]) || null,
      timeOf(origin["at"]) ?? 0,
      textOf(origin["repo_url"]),
    );
  }
};

const addPrompts = (sql: Sql, { number, facts, bytes }: Added): void => {
  for (const prompt of recordsIn(bytes, facts, ({ display }) => typeof display === "string")) {
    const display = withoutData(textOf(prompt["display"]));
    if (display === "") continue;
    sql.run(
      "INSERT INTO prompts (source, at, project, session_id, display, searched) VALUES (?, ?, ?, ?, ?, ?)",
      number,
      timeOf(prompt["timestamp"]),
      textOf(prompt["project"]) || textOf(prompt["projectPath"]),
      textOf(prompt["sessionId"]),
      display,
      maskSecrets(display),
    );
  }
};

const addLines: Partial<Record<Source["kind"], (sql: Sql, added: Added) => void>> = {
  session: addEntries,
  subagent: addEntries,
  codex: addEntries,
  history: addPrompts,
  origins: addOrigins,
};
