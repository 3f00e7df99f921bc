import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import type { Sql } from "./sqlite-file.ts";

type Row = { begin: number; bytes: Uint8Array };

/** Bytes that are compressed together, unless a line is longer: reading one line costs the decompression of so much. */
const longest = 128 * 1024;

export const createChunkStore = (sql: Sql) => {
  const unpacked = (bytes: Uint8Array): Buffer => sql.attempt(() => zstdDecompressSync(bytes));
  return {
    append: (source: number, begin: number, bytes: Buffer): void => {
      for (const { from, piece } of piecesOf(bytes))
        sql.run(
          "INSERT INTO chunks (source, begin, length, bytes) VALUES (?, ?, ?, ?)",
          source,
          begin + from,
          piece.length,
          packed(piece),
        );
    },
    remove: (source: number): void => void sql.run("DELETE FROM chunks WHERE source = ?", source),
    /** The bytes of a source from a place on, chunk by chunk. */
    chunks: function* (source: number, from = 0): Generator<Buffer> {
      const rows = sql.all<{ number: number }>(
        "SELECT number FROM chunks WHERE source = ? AND begin >= ? ORDER BY begin",
        source,
        from,
      );
      for (const { number } of rows) {
        const row = sql.first<Row>("SELECT begin, bytes FROM chunks WHERE number = ?", number);
        if (row !== undefined) yield unpacked(row.bytes);
      }
    },
    /** Reads lines by their places; those of one chunk in a row cost one decompression. */
    reader: () => {
      let current: { source: number; begin: number; bytes: Buffer } | null = null;
      return (source: number, begin: number, length: number): Buffer => {
        const holds =
          current?.source === source &&
          begin >= current.begin &&
          begin < current.begin + current.bytes.length;
        if (!holds) {
          const row = sql.first<Row>(
            "SELECT begin, bytes FROM chunks WHERE source = ? AND begin <= ? ORDER BY begin DESC LIMIT 1",
            source,
            begin,
          );
          current = row === undefined ? null : { source, begin: row.begin, bytes: unpacked(row.bytes) };
        }
        return current === null
          ? Buffer.alloc(0)
          : current.bytes.subarray(begin - current.begin, begin - current.begin + length);
      };
    },
  };
};

export type ChunkStore = ReturnType<typeof createChunkStore>;

/** Whole lines, as many as fit. */
const piecesOf = function* (bytes: Buffer): Generator<{ from: number; piece: Buffer }> {
  for (let from = 0; from < bytes.length;) {
    let end = bytes.length;
    if (end - from > longest) {
      const last = bytes.lastIndexOf(10, from + longest - 1);
      end = (last >= from ? last : bytes.indexOf(10, from)) + 1 || bytes.length;
    }
    yield { from, piece: bytes.subarray(from, end) };
    from = end;
  }
};

const packed = (bytes: Buffer): Buffer =>
  zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: 1 } });

/** Each line with the place where it begins; a line feed ends it. */
export const linesOf = function* (bytes: Buffer): Generator<{ begin: number; line: Buffer }> {
  for (let begin = 0; begin < bytes.length;) {
    const feed = bytes.indexOf(10, begin);
    const end = feed < 0 ? bytes.length : feed;
    if (end > begin) yield { begin, line: bytes.subarray(begin, end) };
    begin = end + 1;
  }
};
