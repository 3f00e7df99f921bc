import { setImmediate as nextTurn } from "node:timers/promises";
import { createSql } from "./index-rows.ts";
import { openFile } from "./index-schema.ts";
import type { Passage } from "./passages.ts";

export type StoredPassage = Omit<Passage, "text"> & { vector: Float32Array };
export type Near = { session_id: string; position: number; timestamp: string | null; score: number };

/** The vectors of passages, in a file of their own. Those of another model, and of other texts, are made anew. */
export const openVectors = (path: string) => {
  const sql = createSql(path, (at) => {
    const database = openFile(at);
    database.exec(schema);
    return database;
  });
  const drop = (id: string): void => {
    for (const table of ["vectors", "embedded"]) sql.run(`DELETE FROM ${table} WHERE session_id = ?`, id);
  };
  const page = (model: string, after: number) =>
    sql.all<Row>(
      "SELECT rowid, session_id, position, timestamp, vector FROM vectors WHERE model = ? AND rowid > ? ORDER BY rowid LIMIT 1000",
      model,
      after,
    );

  return {
    /** What the vectors of a session were made from; null: it has none. */
    revisionOf: (id: string): string | null =>
      sql.first<{ revision: string }>("SELECT revision FROM embedded WHERE session_id = ?", id)?.revision ??
      null,
    /** Vectors of a session by the digest of their text. */
    vectorsOf: (id: string, model: string): Map<string, Float32Array> =>
      new Map(
        sql
          .all<{ digest: string; vector: Uint8Array }>(
            "SELECT digest, vector FROM vectors WHERE session_id = ? AND model = ?",
            id,
            model,
          )
          .map(({ digest, vector }) => [digest, floats(vector)]),
      ),
    replace: (
      id: string,
      { model, revision: made, passages }: { model: string; revision: string; passages: StoredPassage[] },
    ): void =>
      sql.transaction(() => {
        drop(id);
        for (const { position, timestamp, digest, vector } of passages)
          sql.run(
            "INSERT INTO vectors VALUES (?, ?, ?, ?, ?, ?)",
            model,
            id,
            position,
            timestamp,
            digest,
            new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength),
          );
        sql.run("INSERT INTO embedded VALUES (?, ?)", id, made);
      }),
    /** Forgets sessions that are no longer there. */
    retain: (isThere: (id: string) => boolean): void => {
      sql.renew();
      const gone = sql
        .all<{ session_id: string }>("SELECT session_id FROM embedded")
        .filter(({ session_id }) => !isThere(session_id));
      if (gone.length > 0) sql.transaction(() => gone.forEach(({ session_id }) => drop(session_id)));
    },
    /** The nearest passage of each session, the nearest first. Vectors have length 1. */
    nearest: async (query: Float32Array, { model, among, limit }: Among): Promise<Near[]> => {
      const best = new Map<string, Near>();
      for (let rows = page(model, 0); rows.length > 0; rows = page(model, rows.at(-1)?.rowid ?? 0)) {
        for (const { session_id, position, timestamp, vector } of rows) {
          if (!among(session_id)) continue;
          const score = product(query, floats(vector));
          if (score > (best.get(session_id)?.score ?? -2))
            best.set(session_id, { session_id, position, timestamp, score });
        }
        // Other requests are answered in between.
        await nextTurn();
      }
      return [...best.values()].toSorted((a, b) => b.score - a.score).slice(0, limit);
    },
    close: sql.close,
  };
};

export type Vectors = ReturnType<typeof openVectors>;

type Row = {
  rowid: number;
  session_id: string;
  position: number;
  timestamp: string | null;
  vector: Uint8Array;
};

type Among = { model: string; among: (id: string) => boolean; limit: number };

const schema = `
  CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, session_id TEXT NOT NULL, position INTEGER NOT NULL, timestamp TEXT, digest TEXT NOT NULL,
    vector BLOB NOT NULL);
  CREATE INDEX IF NOT EXISTS vectors_of_session ON vectors (session_id);
  CREATE TABLE IF NOT EXISTS embedded (session_id TEXT PRIMARY KEY, revision TEXT NOT NULL)`;

/** A blob may begin at any address; floats need one that is a multiple of four. */
const floats = (bytes: Uint8Array): Float32Array => new Float32Array(Uint8Array.from(bytes).buffer);

const product = (a: Float32Array, b: Float32Array): number => {
  if (a.length !== b.length) return -2;
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0);
  return sum;
};
