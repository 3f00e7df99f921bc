import { entryTypes } from "../contract/transcript-entry.ts";
import { maskSecrets } from "../lib/secret-shapes.ts";
import { linesOf, type ChunkStore } from "./chunk-store.ts";
import type { Chunk, Corpus, Source } from "./corpus.ts";
import { learn, noFacts } from "./facts.ts";
import { toSourceRow, type Sql, type SourceRow, type StoredSource } from "./index-rows.ts";
import { entriesPerSource } from "./index-schema.ts";
import { objectOf, parsed, textOf, timeOf } from "./json.ts";
import { refreshSession } from "./session-row.ts";
import { readLine } from "./read-line.ts";
import { isShown, searchedText } from "./transcript-line.ts";

/** Stores sources with their chunks, and everything that is derived from them, in one transaction each. */
export const createIndexWriter = (sql: Sql, chunkStore: ChunkStore): Corpus => {
  const read = (id: string): SourceRow | undefined => {
    const row = sql.first<StoredSource>("SELECT number, record, facts FROM sources WHERE id = ?", id);
    return row === undefined ? undefined : toSourceRow(row);
  };

  const put = (source: Source, chunks: readonly Chunk[]): boolean => {
    const stored = read(source.id);
    if (!follows(stored?.source, source, chunks)) return false;
    const changed = stored === undefined ? [] : sessionsOf(sql, stored);
    const isReplaced = stored !== undefined && stored.source.generation !== source.generation;
    if (isReplaced) removeDerived(stored.number);
    const number = stored?.number ?? insert(sql, source);
    const facts = stored === undefined || isReplaced ? noFacts() : stored.facts;
    addChunks({ number, source, facts }, chunks);
    update(sql, { number, source, facts });
    for (const session of new Set([...changed, ...sessionsOf(sql, { number, source })]))
      refreshSession(sql, session);
    return true;
  };

  const addChunks = (row: SourceRow, chunks: readonly Chunk[]): void => {
    for (const { from, bytes } of chunks) {
      if (bytes.length === 0) continue;
      const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      chunkStore.append(row.number, from, buffer);
      addLines[row.source.kind]?.(sql, { ...row, from, bytes: buffer });
    }
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
    put: async (source, chunks) => sql.transaction(() => put(source, chunks)),
    chunksFrom: async function* ({ id, generation }, from) {
      const stored = read(id);
      if (stored === undefined) return;
      let at = 0;
      for (const bytes of chunkStore.chunks(stored.number)) {
        if (at >= from) yield { source_id: id, generation, from: at, bytes };
        at += bytes.length;
      }
    },
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

/** Whether the chunks continue what is stored. */
const follows = (stored: Source | undefined, source: Source, chunks: readonly Chunk[]): boolean => {
  if (stored !== undefined && source.generation < stored.generation) return false;
  let end = stored === undefined || source.generation > stored.generation ? 0 : stored.collected;
  for (const { from, bytes } of chunks) {
    if (from !== end) return false;
    end += bytes.length;
  }
  return end === source.collected;
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
