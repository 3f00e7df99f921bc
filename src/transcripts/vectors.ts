import { createSql, openFile } from "./sqlite-file.ts";

/** A part of a session that has one vector. `position`: of its first entry; `digest`: of its text. */
export type Passage = { position: number; timestamp: string | null; digest: string; vector: Float32Array };

type Row = { session_id: string; passages: string; vectors: Uint8Array };

/** The vectors of sessions, in a file of their own: a row each. */
export const openVectors = (path: string) => {
  const sql = createSql(path, (at) => {
    const database = openFile(at);
    database.exec(schema);
    return database;
  });
  return {
    /** The revision from which each session's vectors were made. */
    revisions: (model: string): Map<string, string> => {
      const rows = sql.all<{ session_id: string; revision: string }>(
        "SELECT session_id, revision FROM embeddings WHERE model = ?",
        model,
      );
      return new Map(rows.map(({ session_id, revision }) => [session_id, revision]));
    },
    passagesOf: (id: string, model: string): Passage[] => {
      const row = sql.first<Row>("SELECT * FROM embeddings WHERE session_id = ? AND model = ?", id, model);
      return row === undefined ? [] : unpacked(row);
    },
    replace: (
      id: string,
      { model, revision, passages }: { model: string; revision: string; passages: Passage[] },
    ): void =>
      void sql.run(
        "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?, ?)",
        id,
        model,
        revision,
        JSON.stringify(passages.map(({ vector, ...rest }) => ({ ...rest, length: vector.length }))),
        Buffer.concat(
          passages.map(({ vector }) => Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength)),
        ),
      ),
    retain: (ids: readonly string[]): void => {
      sql.renew();
      const listed = JSON.stringify(ids);
      const unlisted = "DELETE FROM embeddings WHERE session_id NOT IN (SELECT value FROM json_each(?))";
      if (sql.run(unlisted, listed).changes > 0) sql.shrink();
    },
    all: function* (model: string): Generator<{ session_id: string; passages: Passage[] }> {
      for (let last = ""; ;) {
        const row = sql.first<Row>(
          "SELECT * FROM embeddings WHERE model = ? AND session_id > ? ORDER BY session_id LIMIT 1",
          model,
          last,
        );
        if (row === undefined) return;
        last = row.session_id;
        yield { session_id: last, passages: unpacked(row) };
      }
    },
    close: sql.close,
  };
};

export type Vectors = ReturnType<typeof openVectors>;

const schema = `
  CREATE TABLE IF NOT EXISTS embeddings (
    session_id TEXT PRIMARY KEY, model TEXT NOT NULL, revision TEXT NOT NULL, passages TEXT NOT NULL,
    vectors BLOB NOT NULL)`;

const unpacked = ({ passages, vectors }: Row): Passage[] => {
  // A blob may begin at any address; floats need one that is a multiple of four.
  const floats = new Float32Array(Uint8Array.from(vectors).buffer);
  let at = 0;
  return (JSON.parse(passages) as (Omit<Passage, "vector"> & { length: number })[]).map(
    ({ length, ...rest }) => ({ ...rest, vector: floats.subarray(at, (at += length)) }),
  );
};
