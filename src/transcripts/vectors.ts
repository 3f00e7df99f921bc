import { closeSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Passage } from "./passages.ts";

export type StoredPassage = Omit<Passage, "text"> & { vector: Float32Array };
export type Near = { session_id: string; position: number; timestamp: string | null; score: number };

/** The vectors of passages, in the file of the index. Those of another model, and of other texts, are made anew. */
export const openVectors = (path: string) => {
  closeSync(openSync(path, "a", 0o600));
  const file = new DatabaseSync(path, { timeout: 5000 });
  file.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  file.exec(schema);
  const revision = file.prepare("SELECT revision FROM embedded WHERE session_id = ?");
  const known = file.prepare("SELECT digest, vector FROM vectors WHERE session_id = ? AND model = ?");
  const drop = ["vectors", "embedded"].map((table) =>
    file.prepare(`DELETE FROM ${table} WHERE session_id = ?`),
  );
  const add = file.prepare("INSERT INTO vectors VALUES (?, ?, ?, ?, ?, ?)");
  const mark = file.prepare("INSERT INTO embedded VALUES (?, ?)");
  const page = file.prepare(
    "SELECT rowid, session_id, position, timestamp, vector FROM vectors WHERE model = ? AND rowid > ? ORDER BY rowid LIMIT 1000",
  );
  const sessions = file.prepare("SELECT session_id FROM embedded");

  const transaction = (work: () => void): void => {
    file.exec("BEGIN IMMEDIATE");
    try {
      work();
      file.exec("COMMIT");
    } catch (error) {
      if (file.isTransaction) file.exec("ROLLBACK");
      throw error;
    }
  };

  return {
    /** What the vectors of a session were made from; null: it has none. */
    revisionOf: (id: string): string | null => (revision.get(id)?.["revision"] as string | undefined) ?? null,
    /** Vectors of a session by the digest of their text. */
    vectorsOf: (id: string, model: string): Map<string, Float32Array> =>
      new Map(
        known.all(id, model).map(({ digest, vector }) => [digest as string, floats(vector as Uint8Array)]),
      ),
    replace: (
      id: string,
      { model, revision: made, passages }: { model: string; revision: string; passages: StoredPassage[] },
    ): void =>
      transaction(() => {
        for (const each of drop) each.run(id);
        for (const { position, timestamp, digest, vector } of passages)
          add.run(
            model,
            id,
            position,
            timestamp,
            digest,
            new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength),
          );
        mark.run(id, made);
      }),
    /** Forgets sessions that are no longer there. */
    retain: (isThere: (id: string) => boolean): void => {
      const gone = sessions
        .all()
        .flatMap(({ session_id }) => (isThere(String(session_id)) ? [] : String(session_id)));
      if (gone.length > 0) transaction(() => gone.forEach((id) => drop.forEach((each) => each.run(id))));
    },
    /** The nearest passage of each session, the nearest first. Vectors have length 1. */
    nearest: async (query: Float32Array, { model, among, limit }: Among): Promise<Near[]> => {
      const best = new Map<string, Near>();
      for (
        let rows = page.all(model, 0);
        rows.length > 0;
        rows = page.all(model, rows.at(-1)?.["rowid"] ?? 0)
      ) {
        for (const { session_id, position, timestamp, vector } of rows) {
          const id = String(session_id);
          if (!among(id)) continue;
          const score = product(query, floats(vector as Uint8Array));
          if (score > (best.get(id)?.score ?? -2))
            best.set(id, {
              session_id: id,
              position: Number(position),
              timestamp: timestamp as string | null,
              score,
            });
        }
        // Other requests are answered in between.
        await nextTurn();
      }
      return [...best.values()].toSorted((a, b) => b.score - a.score).slice(0, limit);
    },
    close: () => file.close(),
  };
};

export type Vectors = ReturnType<typeof openVectors>;

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
