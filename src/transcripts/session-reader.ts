import { setImmediate as nextTurn } from "node:timers/promises";
import type { Action, Session, SessionMeta } from "../contract/transcript.ts";
import { entryTypes, type Detail, type Entry } from "../contract/transcript-entry.ts";
import { actionsOf } from "./actions.ts";
import { linesOf, type ChunkStore } from "./chunk-store.ts";
import type { Source } from "./corpus.ts";
import { detailsOf } from "./entry-pages.ts";
import { noFacts, learn, summaryOf, titleOf, type Facts } from "./facts.ts";
import type { Sql } from "./sqlite-file.ts";
import { entriesPerSource } from "./index-schema.ts";
import type { Library } from "./library.ts";
import type { SessionKind } from "../contract/transcript.ts";
import { toTime } from "./json.ts";
import { readLine } from "./read-line.ts";
import { emptyLine, type Line } from "./transcript-line.ts";

type Row = {
  id: string;
  source: number;
  kind: SessionKind;
  job_id: string | null;
  project: string;
  updated: number;
  tokens: number;
  cost: number | null;
  subagents: number;
  record: string;
  facts: string;
};

type Place = { id: number; begin: number; length: number };

const columns = `sessions.id, sessions.source, sessions.kind, job_id, sessions.project, updated, tokens, cost, subagents, record, facts
  FROM sessions JOIN sources ON sources.number = sessions.source`;

export const createSessionReader = (
  sql: Sql,
  chunkStore: ChunkStore,
): Pick<Library, "listSessions" | "session" | "sessionsStartingWith" | "entries" | "actions"> => {
  const find = (id: string): Row | undefined => sql.first<Row>(`SELECT ${columns} WHERE sessions.id = ?`, id);

  /** The places, and those that are not shown up to the next one that is. */
  const withFollowers = ({ source }: Row, places: readonly Place[]): (Place & { shown: number })[] => {
    const [first, last] = [places[0]?.id, places.at(-1)?.id];
    if (first === undefined || last === undefined) return [];
    const next = sql.first<{ id: number }>(
      "SELECT id FROM entries WHERE id > ? AND id < ? AND shown = 1 ORDER BY id LIMIT 1",
      last,
      (source + 1) * entriesPerSource,
    );
    return sql.all(
      "SELECT id, shown, begin, length FROM entries WHERE id >= ? AND id < ? ORDER BY id",
      first,
      next?.id ?? (source + 1) * entriesPerSource,
    );
  };

  return {
    listSessions: ({ project, limit, offset, updatedSince }) => {
      const where = "kind <> 'service' AND updated >= ? AND (? = '' OR instr(project, ?) > 0)";
      const filter = [updatedSince, project, project] as const;
      const total = sql.first<{ total: number }>(
        `SELECT COUNT(*) AS total FROM sessions WHERE ${where}`,
        ...filter,
      );
      const rows = sql.all<Row>(
        `SELECT ${columns} WHERE sessions.${where} ORDER BY updated DESC, sessions.id LIMIT ? OFFSET ?`,
        ...filter,
        limit,
        offset,
      );
      return { total: total?.total ?? 0, items: rows.map((row) => sessionOf(row, factsOf(row))) };
    },

    session: (id) => {
      const row = find(id);
      return row === undefined ? null : metaOf(row);
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
      const bounds = [
        row.source * entriesPerSource,
        (row.source + 1) * entriesPerSource - 1,
        ...(since === null ? [] : [since]),
        ...(until === null ? [] : [until]),
      ];
      const where = `FROM entries WHERE id BETWEEN ? AND ? AND shown = 1
        ${since === null ? "" : "AND at >= ?"} ${until === null ? "" : "AND at <= ?"}`;
      const total = sql.first<{ total: number }>(`SELECT COUNT(*) AS total ${where}`, ...bounds)?.total ?? 0;
      const from = offset < 0 ? Math.max(0, total + offset) : offset;
      const places = sql.all<Place>(
        `SELECT id, begin, length ${where} ORDER BY id LIMIT ? OFFSET ?`,
        ...bounds,
        limit,
        from,
      );
      const read = chunkStore.reader();
      const kind = sourceOf(row).kind;
      const lineAt = ({ begin, length }: Place): Line =>
        readLine(kind, read(row.source, begin, length)) ?? emptyLine;
      if (!details) return { total, items: places.map((place) => toEntry(place.id, lineAt(place))) };
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
      for (const action of await actionsOf(entryLines(sourceOf(row).kind, chunkStore.chunks(row.source)))) {
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
      entries.push({ ...toEntry(place.id, line), details: current });
    }
    if (!line.sidechain) current?.push(...detailsOf(line));
  }
  return entries;
};

const entryLines = async function* (kind: Source["kind"], chunks: Iterable<Buffer>): AsyncGenerator<Line> {
  const facts = noFacts();
  for (const chunk of chunks) {
    for (const { line } of linesOf(chunk)) {
      const read = readLine(kind, line);
      if (read !== null && learn(facts, read)) yield read;
    }
    // Other requests are answered in between.
    await nextTurn();
  }
};

export const toEntry = (id: number, { content, at, uuid, calls }: Line) => ({
  entry_type: entryTypes[id % entryTypes.length] ?? "system",
  timestamp: toTime(at),
  content,
  tool_names: calls.map(({ name }) => name),
  uuid,
});

const sourceOf = ({ record }: Row): Source => JSON.parse(record) as Source;
const factsOf = ({ facts }: Row): Facts => JSON.parse(facts) as Facts;

const sessionOf = (row: Row, facts: Facts): Session & { kind: SessionKind } => ({
  session_id: row.id,
  kind: row.kind,
  project_path: row.project,
  git_branch: facts.branch,
  start_time: toTime(facts.start),
  last_update: toTime(row.updated),
  num_user_turns: facts.prompts,
  num_assistant_turns: facts.answers,
  num_tool_calls: facts.calls,
  summary: summaryOf(facts),
  has_subagents: row.subagents === 1,
  title: titleOf(facts),
  model: facts.model,
  cost_usd: row.cost,
  total_tokens: row.tokens,
  job_id: row.job_id,
});

const metaOf = (row: Row): SessionMeta & Session & { kind: SessionKind } => {
  const [source, facts] = [sourceOf(row), factsOf(row)];
  return {
    ...sessionOf(row, facts),
    project_encoded: source.project_encoded,
    cwd: facts.cwd,
    transcript_path: source.path,
    file_size_bytes: source.size,
    codename: facts.slugs.at(-1) ?? "",
  };
};
