import { hash } from "node:crypto";
import { ServiceError } from "../contract/errors.ts";
import { entryTypes } from "../contract/transcript-entry.ts";
import type { ChunkStore } from "./chunk-store.ts";
import type { Source } from "./corpus.ts";
import type { Sql } from "./sqlite-file.ts";
import { entriesPerSource, rangeOf } from "./index-schema.ts";
import { objectOf, parsed, textOf } from "./json.ts";
import type { Library, SearchQuestion } from "./library.ts";
import { previewOf, toFtsQuery } from "./search-query.ts";
import { toEntry } from "./session-reader.ts";
import { readLine } from "./read-line.ts";
import { emptyLine, searchedText } from "./transcript-line.ts";

type Found = {
  session: string;
  /** The source whose entries the session shows. */
  main: number;
  project: string;
  source: number;
  kind: Source["kind"];
  entry: number;
  begin: number;
  length: number;
  hits: number;
  best: number;
};

/**
 * Of more hits only those are ranked that were collected last; sessions without one follow by time. Words that are so
 * common tell little about a session.
 */
const mostRanked = 2000;

export const createSearch = (sql: Sql, chunkStore: ChunkStore): Library["search"] => {
  /** Of each source its best entry, the number of its hits, and the best rank. */
  const hitsBySource = (query: string, { hits, values }: ReturnType<typeof filterOf>) => {
    const sources = new Map<number, [source: number, entry: number, hits: number, best: number]>();
    const newest = sql.all<{ entry: number; score: number }>(
      `SELECT texts.rowid AS entry, rank AS score ${hits} ORDER BY texts.rowid DESC LIMIT ${mostRanked}`,
      query,
      ...values,
    );
    for (const { entry, score } of newest) {
      const source = Math.floor(entry / entriesPerSource);
      const [, bestEntry, count, best] = sources.get(source) ?? [source, entry, 0, score];
      sources.set(source, [source, score < best ? entry : bestEntry, count + 1, Math.min(best, score)]);
    }
    if (newest.length < mostRanked) return [...sources.values()];
    const counted = sql.all<{ source: number; latest: number; hits: number }>(
      `SELECT texts.rowid / ${entriesPerSource} AS source, MAX(texts.rowid) AS latest, COUNT(*) AS hits ${hits} GROUP BY 1`,
      query,
      ...values,
    );
    return counted.map(({ source, latest, hits: count }) => {
      const [, entry, , best] = sources.get(source) ?? [source, latest, count, 0];
      return [source, entry, count, best];
    });
  };

  /** Of the last entry that is shown up to the hit; of a subagent's hit: up to its time. */
  const positionOf = ({ main, source, entry }: Found): number => {
    const [first, last] = rangeOf(main);
    const found = sql.first<{ shown: number }>(
      `SELECT COUNT(*) AS shown FROM entries WHERE shown = 1 AND id BETWEEN ? AND ?
         AND (? OR at <= (SELECT at FROM entries WHERE id = ?))`,
      first,
      source === main ? entry : last,
      Number(source === main),
      entry,
    );
    return Math.max(0, (found?.shown ?? 0) - 1);
  };

  return (question, mask = (text) => text) => {
    const fts = toFtsQuery(question.query);
    const query = fts.match;
    const read = chunkStore.reader();
    const offset = offsetOf(question);
    const rows = sql.all<Found & { total: number }>(
      `SELECT sessions.id AS session, sessions.source AS main, sessions.project, sources.number AS source, sources.kind, found.value ->> 1 AS entry, begin, length,
         SUM(found.value ->> 2) AS hits, MIN(found.value ->> 3) AS best, COUNT(*) OVER () AS total
       FROM json_each(?) AS found
       JOIN sources ON sources.number = found.value ->> 0
       JOIN sessions ON sessions.id = sources.session_id
       JOIN entries ON entries.id = found.value ->> 1
       WHERE sources.counted = 1
         AND sessions.kind <> 'service' AND sessions.id NOT IN (SELECT value FROM json_each(?)) AND (? = '' OR instr(sessions.project, ?) > 0)
       GROUP BY session ORDER BY best, updated DESC, session LIMIT ? OFFSET ?`,
      JSON.stringify(hitsBySource(query, filterOf(question))),
      JSON.stringify(question.exclude),
      question.project,
      question.project,
      question.limit,
      offset,
    );
    const total = rows[0]?.total ?? 0;
    const end = offset + rows.length;
    return {
      total,
      nextCursor: rows.length > 0 && end < total ? cursorOf(question, end) : null,
      matches: rows.map((row) => {
        const { session, project, source, kind, entry, begin, length, hits, best } = row;
        const line = readLine(kind, read(source, begin, length)) ?? emptyLine;
        const { entry_type, timestamp, uuid } = toEntry({ id: entry, inherited: 0 }, line);
        return {
          session_id: session,
          project_path: project,
          entry_type,
          content_preview: previewOf(mask(searchedText(line)), fts),
          timestamp,
          uuid,
          position: positionOf(row),
          score: -best,
          num_hits: hits,
        };
      }),
    };
  };
};

/** Where the hits are found; the first value is the query. */
const filterOf = ({ role, since, until }: SearchQuestion): { hits: string; values: number[] } => {
  const byTime = since !== null || until !== null;
  const from = byTime ? "texts JOIN entries ON entries.id = texts.rowid" : "texts";
  const isOfRole = role === "" ? "" : `AND texts.rowid % ${entryTypes.length} = ${entryTypes.indexOf(role)}`;
  return {
    hits: `FROM ${from} WHERE texts MATCH ? ${isOfRole} ${byTime ? "AND entries.at BETWEEN ? AND ?" : ""}
      AND NOT EXISTS (SELECT 1 FROM entries AS copy WHERE copy.id = texts.rowid AND copy.inherited = 1)`,
    values: byTime ? [since ?? Number.MIN_SAFE_INTEGER, until ?? Number.MAX_SAFE_INTEGER] : [],
  };
};

const digestOf = ({ query, project, since, until, role }: SearchQuestion): string =>
  hash("sha256", JSON.stringify([query, project, since, until, role]), "base64url").slice(0, 16);

const cursorOf = (question: SearchQuestion, offset: number): string =>
  Buffer.from(JSON.stringify({ offset, of: digestOf(question) })).toString("base64url");

const offsetOf = (question: SearchQuestion): number => {
  if (question.cursor === "") return 0;
  const { offset, of } = objectOf(parsed(Buffer.from(question.cursor, "base64url").toString("utf8")));
  if (Number.isSafeInteger(offset) && Number(offset) >= 0 && textOf(of) === digestOf(question))
    return Number(offset);
  throw new ServiceError(
    "invalid_request",
    "The cursor does not belong to this search; give the next_cursor of its previous page, with the same parameters",
  );
};
