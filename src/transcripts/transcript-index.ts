import type { Log } from "../lib/log.ts";
import { createChunkStore } from "./chunk-store.ts";
import { createDocuments } from "./documents.ts";
import { createSql } from "./sqlite-file.ts";
import { openDatabase } from "./index-schema.ts";
import { createIndexWriter, type IndexWriter } from "./index-writer.ts";
import type { Library } from "./library.ts";
import { createSearch } from "./search.ts";
import { createSessionReader } from "./session-reader.ts";

export type TranscriptIndex = IndexWriter & Library & { close: () => void };

/**
 * What was collected and everything that is found in it, in one SQLite file that several processes may share.
 * @throws ServiceError store_unavailable; Error when another version made the file
 */
export const openTranscriptIndex = ({ path, log }: { path: string; log: Log }): TranscriptIndex => {
  const sql = createSql(path, openDatabase);
  const chunkStore = createChunkStore(sql);
  log.debug({ path }, "transcripts opened");
  return {
    ...createIndexWriter(sql, chunkStore),
    ...createSessionReader(sql, chunkStore),
    ...createDocuments(sql, chunkStore),
    search: createSearch(sql, chunkStore),
    close: sql.close,
  };
};
