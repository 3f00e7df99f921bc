import { setImmediate as nextTurn } from "node:timers/promises";
import type { Action, Session, SessionMeta } from "../contract/transcript.ts";
import { entryTypes, type Detail, type Entry } from "../contract/transcript-entry.ts";
import { actionsOf } from "./actions.ts";
import type { ChunkStore } from "./chunk-store.ts";
import type { Source } from "./corpus.ts";
import { detailsOf } from "./entry-pages.ts";
import { mostUnknown, otherKinds } from "./facts.ts";
import type { Sql } from "./sqlite-file.ts";
import { entriesPerSource, rangeOf } from "./index-schema.ts";
import type { Library } from "./library.ts";
import { toTime } from "./json.ts";
import { readLine } from "./read-line.ts";
import { emptyLine, type Line } from "./transcript-line.ts";

/** The source whose entries a session shows. */
type Shown = { source: number; kind: Source["kind"] };

type Place = { id: number; begin: number; length: number; inherited: number };

/** How much is read before other requests are answered, bytes. */
const longestTurn = 64 * 1024;

export const createSessionReader = (
  sql: Sql,
  chunkStore: ChunkStore,
): Pick<Library, "listSessions" | "session" | "unread" | "sessionsStartingWith" | "entries" | "actions"> => {
  const find = (id: string): Shown | undefined =>
    sql.first(
      "SELECT number AS source, sources.kind FROM sessions JOIN sources ON number = source WHERE sessions.id = ?",
      id,
    );

  /** The places, and those that are not shown up to the next one that is. */
  const withFollowers = ({ source }: Shown, places: readonly Place[]): (Place & { shown: number })[] => {
    const [first, last] = [places[0]?.id, places.at(-1)?.id];
    if (first === undefined || last === undefined) return [];
    return sql.all(
      `SELECT id, shown, begin, length, inherited FROM entries WHERE id >= ?1 AND id < coalesce(
         (SELECT id FROM entries WHERE id > ?2 AND id < ?3 AND shown = 1 ORDER BY id LIMIT 1), ?3) ORDER BY id`,
      first,
      last,
      (source + 1) * entriesPerSource,
    );
  };

  /** The lines that the session has not from another one, shown or not. */
  const entryLines = async function* ({ source, kind }: Shown): AsyncGenerator<Line> {
    const places = sql.all<Place>(
      "SELECT begin, length FROM entries WHERE id BETWEEN ? AND ? AND inherited = 0 ORDER BY id",
      ...rangeOf(source),
    );
    const read = chunkStore.reader();
    let since = 0;
    for (const { begin, length } of places) {
      const line = readLine(kind, read(source, begin, length));
      if (line !== null) yield line;
      if ((since += length) > longestTurn) await nextTurn().then(() => (since = 0));
    }
  };

  return {
    listSessions: ({ project, limit, offset, updatedSince }) => {
      const where = "kind <> 'service' AND turns > 0 AND updated >= ? AND (? = '' OR instr(project, ?) > 0)";
      const filter = [updatedSince, project, project] as const;
      const total = sql.first<{ total: number }>(
        `SELECT COUNT(*) AS total FROM sessions WHERE ${where}`,
        ...filter,
      );
      const rows = sql.all<{ session: string }>(
        `SELECT session FROM sessions WHERE ${where} ORDER BY updated DESC, id LIMIT ? OFFSET ?`,
        ...filter,
        limit,
        offset,
      );
      return { total: total?.total ?? 0, items: rows.map(({ session }) => JSON.parse(session) as Session) };
    },

    session: (id) => {
      const row = sql.first<{ session: string; meta: string }>(
        "SELECT session, meta FROM sessions WHERE id = ?",
        id,
      );
      if (row === undefined) return null;
      return { ...(JSON.parse(row.session) as Session), ...(JSON.parse(row.meta) as SessionMeta) };
    },

    unread: () => {
      const damaged = sql.first<{ lines: number | null }>(
        "SELECT SUM(facts ->> '$.damaged') AS lines FROM sources",
      );
      const unknown = sql.all<{ kind: string; lines: number }>(
        "SELECT key AS kind, SUM(value) AS lines FROM sources, json_each(facts -> '$.unknown') GROUP BY key ORDER BY key = ?, lines DESC",
        otherKinds,
      );
      const others = unknown.splice(mostUnknown).reduce((sum, { lines }) => sum + lines, 0);
      if (others > 0) unknown.push({ kind: otherKinds, lines: others });
      return {
        damaged_lines: damaged?.lines ?? 0,
        unknown_lines: Object.fromEntries(unknown.map(({ kind, lines }) => [kind, lines])),
      };
    },

    sessionsStartingWith: (beginning) =>
      sql
        .all<{ id: string }>(
          `SELECT id FROM sessions WHERE kind <> 'service' AND (instr(id, ?1) = 1 OR (id LIKE 'rollout-%' AND instr(substr(id, -36), ?1) = 1))
           ORDER BY updated DESC LIMIT 3`,
          beginning,
        )
        .map(({ id }) => id),

    entries: (id, { offset, limit, since, until, details = false }) => {
      const row = find(id);
      if (row === undefined) return { total: 0, items: [] };
      const bounds = [...rangeOf(row.source), since, since, until, until];
      const where = `FROM entries WHERE id BETWEEN ? AND ? AND shown = 1
        AND (? IS NULL OR at >= ?) AND (? IS NULL OR at <= ?)`;
      const total = sql.first<{ total: number }>(`SELECT COUNT(*) AS total ${where}`, ...bounds)?.total ?? 0;
      const from = offset < 0 ? Math.max(0, total + offset) : offset;
      const places = sql.all<Place>(
        `SELECT id, begin, length, inherited ${where} ORDER BY id LIMIT ? OFFSET ?`,
        ...bounds,
        limit,
        from,
      );
      const read = chunkStore.reader();
      const lineAt = ({ begin, length }: Place): Line =>
        readLine(row.kind, read(row.source, begin, length)) ?? emptyLine;
      if (!details) return { total, items: places.map((place) => toEntry(place, lineAt(place))) };
      return {
        total,
        items: detailed(withFollowers(row, places), lineAt, new Set(places.map((each) => each.id))),
      };
    },

    actions: async (id, types) => {
      const calls = new Map<string, number>();
      const row = find(id);
      if (row === undefined) return { calls, actions: [] };
      const actions: Action[] = [];
      for (const action of await actionsOf(entryLines(row))) {
        if (action.type === "tool_use") calls.set(action.name, (calls.get(action.name) ?? 0) + 1);
        if (types.includes(action.type)) actions.push(action);
      }
      return { calls, actions };
    },
  };
};

/** The chosen entries, each with its details and those of the lines that follow it unshown. */
const detailed = (
  places: readonly (Place & { shown: number })[],
  lineAt: (place: Place) => Line,
  chosen: ReadonlySet<number>,
): Entry[] => {
  const entries: Entry[] = [];
  let current: Detail[] | undefined;
  for (const place of places) {
    if (place.shown === 1) current = undefined;
    const line = lineAt(place);
    if (chosen.has(place.id)) {
      current = [];
      entries.push({ ...toEntry(place, line), details: current });
    }
    if (!line.sidechain) current?.push(...detailsOf(line));
  }
  return entries;
};

export const toEntry = (
  { id, inherited }: Pick<Place, "id" | "inherited">,
  { content, at, uuid, calls }: Line,
) => ({
  entry_type: entryTypes[id % entryTypes.length] ?? "system",
  timestamp: toTime(at),
  content,
  tool_names: calls.map(({ name }) => name),
  uuid,
  ...(inherited === 1 && { inherited: true as const }),
});
