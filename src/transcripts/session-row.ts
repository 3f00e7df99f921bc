import type { Session, SessionKind, SessionMeta } from "../contract/transcript.ts";
import type { Source } from "./corpus.ts";
import type { Facts, Totals } from "./facts.ts";
import { rangeOf } from "./index-schema.ts";
import { toTime } from "./json.ts";
import type { Sql } from "./sqlite-file.ts";
import { titleKinds, type TitleKind } from "./transcript-line.ts";

export type SourceRow = { number: number; source: Source; facts: Facts };

/**
 * Chooses the sources that count for a session: one of copies in other homes or of other machines, as old as the first.
 * @returns the digests of lines of those for which this changes something
 */
export const chooseSources = (sql: Sql, id: string): number[] =>
  sql
    .all<{ number: number }>(
      `UPDATE sources SET counted = place = 1, created = oldest FROM (
         SELECT number AS copy, MIN(coalesce(record ->> '$.created', 0)) OVER copies AS oldest,
           row_number() OVER (copies ORDER BY ${newest}) AS place
         FROM sources WHERE session_id = ? AND session_id <> ''
         WINDOW copies AS (PARTITION BY iif(kind = 'subagent', name, '')))
       WHERE number = copy AND (counted, created) IS NOT (place = 1, oldest) RETURNING number`,
      id,
    )
    .flatMap(({ number }) => sql.all<{ line: number }>(linesOf, ...rangeOf(number)))
    .map(({ line }) => line);

const linesOf = "SELECT line FROM entries WHERE id BETWEEN ? AND ? AND line IS NOT NULL";
/** Copies of one length, which are written in turn, do not take each other's place. */
const newest = "record ->> '$.deleted', record ->> '$.collected' DESC, counted DESC, id";

export const sourcesWhere = (sql: Sql, condition: string, value: string | number): SourceRow[] =>
  sql
    .all<{ number: number; record: string; facts: string }>(
      `SELECT number, record, facts FROM sources WHERE ${condition}`,
      value,
    )
    .map(({ number, record, facts }) => ({
      number,
      source: JSON.parse(record) as Source,
      facts: JSON.parse(facts) as Facts,
    }));

type Origin = { kind: SessionKind; job_id: string | null; project: string };

/** Derives the row of a session from its sources and origins: it does not matter in which order they came. */
export const refreshSession = (sql: Sql, id: string): void => {
  // The first is the one whose entries are shown, the others are those of its subagents.
  const counted = `session_id = ? AND session_id <> '' AND counted = 1 ORDER BY kind = 'subagent', ${newest}`;
  const own = sourcesWhere(sql, counted, id);
  const [main] = own;
  // "INSERT OR REPLACE" is a savepoint, as is "RETURNING", at which FTS5 writes what it has gathered.
  sql.run("DELETE FROM sessions WHERE id = ?", id);
  if (main === undefined) return;
  const [origin = { kind: "session", job_id: null, project: "" }] = sql.all<Origin>(
    "SELECT kind, job_id, project FROM origins WHERE session_id = ? ORDER BY at DESC, rowid DESC LIMIT 1",
    id,
  );
  const updated = Math.max(...own.map(({ facts }) => facts.last ?? 0)) || Math.trunc(main.source.modified);
  const session: Session = {
    session_id: id,
    kind: origin.kind,
    job_id: origin.job_id,
    project_path: origin.project || main.facts.project,
    last_update: toTime(updated),
    has_subagents: own.some(({ source }) => source.kind === "subagent"),
    ...countedIn(main, own),
    ...titlesOf(sql, id, main),
  };
  sql.run(
    `INSERT INTO sessions (id, source, kind, job_id, project, updated, turns, session, meta)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    id,
    main.number,
    session.kind,
    session.job_id,
    session.project_path,
    updated,
    session.num_user_turns + session.num_assistant_turns,
    JSON.stringify(session),
    JSON.stringify(metaOf(main)),
  );
};

const countedIn = ({ facts }: SourceRow, own: readonly SourceRow[]) => {
  const { totals } = facts;
  const sum = (name: keyof Totals) => own.reduce((all, each) => all + each.facts.totals[name], 0);
  return {
    git_branch: facts.branch,
    start_time: toTime(facts.start),
    model: facts.model,
    num_user_turns: totals.prompts,
    num_assistant_turns: totals.answers,
    num_tool_calls: totals.calls,
    // A nonsensical number in one transcript would make every list of sessions invalid.
    total_tokens: Math.trunc(Math.min(Math.max(sum("tokens"), 0), Number.MAX_SAFE_INTEGER)) || 0,
    cost_usd: facts.totalCost ?? (sum("costs") === 0 ? null : Math.round(sum("cost") * 1e9) / 1e9),
  };
};

/** The last title of each kind counts that the session's own file has, else one that other files have of it. */
const titlesOf = (sql: Sql, id: string, { number }: SourceRow) => {
  const rows = sql.all<{ kind: TitleKind; text: string }>(
    "SELECT kind, text FROM titles WHERE session_id = ? ORDER BY source = ?, rowid",
    id,
    number,
  );
  const titles = new Map(rows.map(({ kind, text }) => [kind, text]));
  return {
    title: titleKinds.map((kind) => titles.get(kind) ?? "").find((title) => title !== "") ?? "",
    summary: titles.get("summary") ?? promptOf(sql, number) ?? "",
  };
};

/** The prompt that names a session: the first that is no command without a word, such as `/clear`. */
const promptOf = (sql: Sql, number: number): string | null | undefined =>
  sql.first<{ prompt: string | null }>(
    `WITH own AS (SELECT id, prompt FROM entries WHERE id BETWEEN ? AND ? AND prompt IS NOT NULL AND inherited = 0)
     SELECT coalesce(
       (SELECT prompt FROM own WHERE NOT (prompt GLOB '/*' AND instr(prompt, ' ') = 0) ORDER BY id LIMIT 1),
       (SELECT prompt FROM own ORDER BY id LIMIT 1)) AS prompt`,
    ...rangeOf(number),
  )?.prompt;

/** A session's own answer has this besides. */
const metaOf = ({ source, facts }: SourceRow): Omit<SessionMeta, keyof Session> => ({
  project_encoded: source.project_encoded,
  cwd: facts.cwd,
  transcript_path: source.path,
  file_size_bytes: source.size,
  codename: facts.slugs.at(-1) ?? "",
});
