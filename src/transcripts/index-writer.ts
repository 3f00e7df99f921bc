import { entryTypes } from "../contract/transcript-entry.ts";
import { maskSecrets } from "../lib/secret-shapes.ts";
import { linesOf, type ChunkStore } from "./chunk-store.ts";
import { follows, type Chunk, type Corpus, type Source } from "./corpus.ts";
import { learn, noFacts } from "./facts.ts";
import { entriesPerSource } from "./index-schema.ts";
import { objectOf, parsed, textOf, timeOf } from "./json.ts";
import { refreshSession, toSourceRow, type SourceRow, type StoredSource } from "./session-row.ts";
import type { Sql } from "./sqlite-file.ts";
import { readLine } from "./read-line.ts";
import { isShown, searchedText } from "./transcript-line.ts";

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
  const read = (id: string): SourceRow | undefined => {
    const row = sql.first<StoredSource>("SELECT number, record, facts FROM sources WHERE id = ?", id);
    return row === undefined ? undefined : toSourceRow(row);
  };

  const put = (source: Source, chunk: Chunk | undefined): boolean => {
    const stored = read(source.id);
    if (!follows(stored?.source, source, chunk)) return false;
    const changed = stored === undefined ? [] : sessionsOf(sql, stored);
    const isReplaced = stored !== undefined && stored.source.generation !== source.generation;
    if (isReplaced) removeDerived(stored.number);
    const number = stored?.number ?? insert(sql, source);
    const facts = stored === undefined || isReplaced ? noFacts() : stored.facts;
    if (chunk !== undefined && chunk.bytes.length > 0) {
      const bytes = Buffer.from(chunk.bytes.buffer, chunk.bytes.byteOffset, chunk.bytes.byteLength);
      chunkStore.append(number, chunk.from, bytes);
      addLines[source.kind]?.(sql, { number, source, facts, from: chunk.from, bytes });
    }
    update(sql, { number, source, facts });
    for (const session of new Set([...changed, ...sessionsOf(sql, { number, source })]))
      refreshSession(sql, session);
    return true;
  };

  const removeDerived = (number: number): void => {
    const [first, last] = [number * entriesPerSource, (number + 1) * entriesPerSource - 1];
    sql.run(
      "DELETE FROM texts WHERE rowid IN (SELECT id FROM entries WHERE id BETWEEN ? AND ?)",
      first,
      last,
    );
    sql.run("DELETE FROM entries WHERE id BETWEEN ? AND ?", first, last);
    for (const table of ["origins", "slugs", "prompts"])
      sql.run(`DELETE FROM ${table} WHERE source = ?`, number);
    chunkStore.remove(number);
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
          removeDerived(stored.number);
          sql.run("DELETE FROM sources WHERE number = ?", stored.number);
          for (const session of changed) refreshSession(sql, session);
        });
    },
  };
};

const insert = (sql: Sql, { id, kind, session_id, name }: Source): number =>
  Number(
    sql.run(
      "INSERT INTO sources (id, kind, session_id, name, record, facts) VALUES (?, ?, ?, ?, '', '')",
      id,
      kind,
      session_id,
      name,
    ).lastInsertRowid,
  );

const update = (sql: Sql, { number, source, facts }: SourceRow): void => {
  for (const slug of facts.slugs)
    sql.run("INSERT OR IGNORE INTO slugs (slug, source) VALUES (?, ?)", slug, number);
  sql.run(
    "UPDATE sources SET kind = ?, session_id = ?, name = ?, record = ?, facts = ? WHERE number = ?",
    source.kind,
    source.session_id,
    source.name,
    JSON.stringify(source),
    JSON.stringify(facts),
    number,
  );
};

/** The sessions that this source says something about. */
const sessionsOf = (sql: Sql, { number, source }: Pick<SourceRow, "number" | "source">): string[] => {
  if (source.kind !== "origins") return source.session_id === "" ? [] : [source.session_id];
  return sql
    .all<{ session_id: string }>("SELECT DISTINCT session_id FROM origins WHERE source = ?", number)
    .map(({ session_id }) => session_id);
};

type Added = SourceRow & { from: number; bytes: Buffer };

const addEntries = (sql: Sql, { number, source, facts, from, bytes }: Added): void => {
  for (const { begin, line } of linesOf(bytes)) {
    const read = readLine(source.kind, line);
    if (read === null || !learn(facts, read) || read.type === null) continue;
    const id = number * entriesPerSource + facts.entries * entryTypes.length + entryTypes.indexOf(read.type);
    sql.run(
      "INSERT INTO entries (id, at, shown, begin, length) VALUES (?, ?, ?, ?, ?)",
      id,
      read.at,
      source.kind !== "subagent" && isShown(read) ? 1 : 0,
      from + begin,
      line.length,
    );
    sql.run("INSERT INTO texts (rowid, text) VALUES (?, ?)", id, maskSecrets(searchedText(read)));
  }
};

const addOrigins = (sql: Sql, { number, bytes }: Added): void => {
  for (const { line } of linesOf(bytes)) {
    const origin = objectOf(parsed(line.toString("utf8")));
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

const addPrompts = (sql: Sql, { number, bytes }: Added): void => {
  for (const { line } of linesOf(bytes)) {
    const prompt = objectOf(parsed(line.toString("utf8")));
    if (textOf(prompt["display"]) === "") continue;
    sql.run(
      "INSERT INTO prompts (source, at, project, session_id, display, searched) VALUES (?, ?, ?, ?, ?, ?)",
      number,
      timeOf(prompt["timestamp"]),
      textOf(prompt["project"]) || textOf(prompt["projectPath"]),
      textOf(prompt["sessionId"]),
      textOf(prompt["display"]),
      maskSecrets(textOf(prompt["display"])),
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
