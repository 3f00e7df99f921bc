import { hash } from "node:crypto";
import { addTotals, entryTotals, type Facts, type Totals } from "./facts.ts";
import { entriesPerSource } from "./index-schema.ts";
import { sourcesWhere } from "./session-row.ts";
import type { Sql } from "./sqlite-file.ts";
import type { Line } from "./transcript-line.ts";

/** 48 bits tell ids apart, and are numbers that SQLite and JavaScript both have. An empty id has none. */
export const digestOf = (id: string): number | null =>
  id === "" ? null : hash("sha256", id, "buffer").readUIntBE(0, 6);

/** The digest by which a line is known in all files; null: it has no id. */
export const lineOf = ({ uuid, copyOf }: Line): number | null => digestOf(copyOf || uuid);

/** A line of Codex without an id is known by its words among forks of one thread; its place tells it from one before. */
export const saidBy = (
  { threads, entries }: Facts,
  { type, content, thinking, calls, results }: Line,
  has: (digest: number | null) => boolean,
): number | null => {
  const first = threads.at(-1);
  const said = first === undefined ? "" : JSON.stringify([first, type, content, thinking, calls, results]);
  return digestOf(has(digestOf(said)) ? `${said} ${entries}` : said);
};

/** Whether a line says that it is another session's: 1: by that session's id, 2: as the copy of a line of it. */
export const claimOf = ({ session, copyOf }: Line, own: string): 0 | 1 | 2 =>
  copyOf !== "" ? 2 : session !== "" && session !== own ? 1 : 0;

/**
 * Decides anew in which of their entries these lines count; in the others they are inherited.
 *
 * | a line is the same in | if | it counts in |
 * | --- | --- | --- |
 * | one session | the uuid is the same | the session's own file, else the subagent's whose file comes first by name |
 * | two sessions | the time is, too, or one says that it copies the other | the one that does not say it is another's, else whose file was made first, else was changed first |
 *
 * Only lines of files that count keep others from it: `chooseSources`. Titles are about the session in which their
 * leaf counts, else about the one that they name.
 * @returns the sessions for which this may change something
 */
export const settleLines = (sql: Sql, lines: readonly number[]): string[] => {
  if (lines.length === 0) return [];
  const digests = JSON.stringify(lines);
  const titled = () =>
    sql.all<{ session_id: string }>(
      `SELECT session_id FROM titles WHERE session_id IS NOT NULL AND leaf IN ${listed}`,
      digests,
    );
  const before = titled();
  const flipped = sql.all<Totals & { number: number; inherited: 0 | 1 }>(
    `UPDATE entries AS own SET inherited = 1 - inherited WHERE line IN ${listed} AND inherited <> EXISTS (${preceding})
     RETURNING id / ${entriesPerSource} AS number, inherited, ${entryTotals}`,
    digests,
  );
  const holders: string[] = [];
  for (const [number, entries] of Map.groupBy(flipped, (entry) => entry.number))
    for (const { source, facts } of sourcesWhere(sql, "number = ?", number)) {
      for (const entry of entries) addTotals(facts.totals, entry, entry.inherited === 1 ? -1 : 1);
      sql.run("UPDATE sources SET facts = ? WHERE number = ?", JSON.stringify(facts), number);
      holders.push(source.session_id);
    }
  sql.run(
    `UPDATE titles SET session_id = coalesce((${ownerOfLeaf}), named) WHERE leaf IN ${listed}`,
    digests,
  );
  return [...holders, ...[...before, ...titled()].map(({ session_id }) => session_id)];
};

const listed = "(SELECT value FROM json_each(?))";

const holds = (source: string, entry: string): string =>
  `${source}.number = ${entry}.id / ${entriesPerSource}`;

const ownerOfLeaf = `SELECT session_id FROM entries JOIN sources ON ${holds("sources", "entries")}
  WHERE line = titles.leaf AND inherited = 0 ORDER BY counted DESC LIMIT 1`;

const preceding = `SELECT 1 FROM entries AS twin
  JOIN sources AS theirs ON ${holds("theirs", "twin")} JOIN sources AS ours ON ${holds("ours", "own")}
  WHERE twin.line = own.line AND theirs.counted = 1 AND CASE theirs.session_id = ours.session_id
    WHEN 1 THEN theirs.name <> ours.name
      AND (theirs.kind = 'subagent', theirs.name) < (ours.kind = 'subagent', ours.name)
    ELSE (twin.at IS own.at OR 2 IN (twin.claim, own.claim))
      AND (twin.claim > 0, theirs.created, theirs.modified, theirs.session_id)
        < (own.claim > 0, ours.created, ours.modified, ours.session_id)
  END`;
