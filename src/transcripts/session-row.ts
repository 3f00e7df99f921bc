import type { Session, SessionKind, SessionMeta } from "../contract/transcript.ts";
import type { Source } from "./corpus.ts";
import type { Facts } from "./facts.ts";
import { rangeOf } from "./index-schema.ts";
import { toTime } from "./json.ts";
import type { Sql } from "./sqlite-file.ts";
import { titleKinds, type TitleKind } from "./transcript-line.ts";

export type SourceRow = { number: number; source: Source; facts: Facts; totals: Totals };

/** Sums over the entries that a source has not from elsewhere. */
type Totals = {
  prompts: number;
  answers: number;
  calls: number;
  tokens: number;
  /** USD; `null`: no answer tells it. */
  cost: number | null;
  /** The prompt that names the session: the first that is no command without a word, such as `/clear`. */
  prompt: string | null;
};

/** Counts the entries of a source anew. Of several lines of one answer the last says what it cost. */
export const refreshTotals = (sql: Sql, number: number): void =>
  void sql.run(
    `WITH own AS (SELECT * FROM entries WHERE id BETWEEN ?1 AND ?2 AND inherited = 0),
       answers AS (SELECT turn, tokens, cost, MAX(id) FROM own WHERE turn OR tokens OR cost GROUP BY answer)
     UPDATE sources SET totals = (SELECT json_object(
       'prompts', COUNT(prompt), 'calls', TOTAL(calls),
       'answers', (SELECT COUNT(*) FROM answers WHERE turn),
       'tokens', (SELECT TOTAL(tokens) FROM answers), 'cost', (SELECT SUM(cost) FROM answers),
       'prompt', (SELECT prompt FROM own WHERE prompt NOT NULL ORDER BY prompt GLOB '/*' AND instr(prompt, ' ') = 0, id)
     ) FROM own) WHERE number = ?3`,
    ...rangeOf(number),
    number,
  );

export const sourcesWhere = (sql: Sql, condition: string, value: string): SourceRow[] =>
  sql
    .all<{ number: number; record: string; facts: string; totals: string }>(
      `SELECT number, record, facts, totals FROM sources WHERE ${condition}`,
      value,
    )
    .map(({ number, record, facts, totals }) => ({
      number,
      source: JSON.parse(record) as Source,
      facts: JSON.parse(facts) as Facts,
      totals: JSON.parse(totals) as Totals,
    }));

/** The sources that count for a session: first the one whose entries are shown, then those of its subagents. */
const sourcesOf = (sql: Sql, id: string): SourceRow[] => {
  const sources = sourcesWhere(
    sql,
    "session_id = ? AND session_id <> '' AND kind IN ('session', 'subagent', 'codex')",
    id,
  );
  sources.sort(
    ({ source: a }, { source: b }) =>
      Number(a.deleted) - Number(b.deleted) || b.collected - a.collected || (a.id < b.id ? -1 : 1),
  );
  // A copy of a file, in another home or of another machine, does not count again.
  const names = new Set<string>();
  const subagents = sources.filter(
    ({ source: { kind, name } }) => kind === "subagent" && !names.has(name) && names.add(name),
  );
  const main = sources.find(({ source }) => source.kind !== "subagent") ?? subagents[0];
  return main === undefined ? [] : [main, ...subagents.filter((source) => source !== main)];
};

type Origin = { kind: SessionKind; job_id: string | null; project: string };

/** Derives the row of a session from its sources and origins: it does not matter in which order they came. */
export const refreshSession = (sql: Sql, id: string): void => {
  const own = sourcesOf(sql, id);
  const [main] = own;
  // "INSERT OR REPLACE" is a savepoint, at which FTS5 writes what it has gathered.
  sql.run("DELETE FROM sessions WHERE id = ?", id);
  if (main === undefined) return;
  const [origin = { kind: "session", job_id: null, project: "" }] = sql.all<Origin>(
    "SELECT kind, job_id, project FROM origins WHERE session_id = ? ORDER BY at DESC, rowid DESC LIMIT 1",
    id,
  );
  sql.run(
    "UPDATE sources SET counted = 1 - counted WHERE session_id = ? AND session_id <> '' AND counted <> (number IN (SELECT value FROM json_each(?)))",
    id,
    JSON.stringify(own.map(({ number }) => number)),
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

const countedIn = ({ facts, totals }: SourceRow, own: readonly SourceRow[]) => {
  const costs = own.flatMap(({ totals: { cost } }) => cost ?? []);
  const tokens = own.reduce((sum, each) => sum + each.totals.tokens, 0);
  return {
    git_branch: facts.branch,
    start_time: toTime(facts.start),
    model: facts.model,
    num_user_turns: totals.prompts,
    num_assistant_turns: totals.answers,
    num_tool_calls: totals.calls,
    // A nonsensical number in one transcript would make every list of sessions invalid.
    total_tokens: Math.trunc(Math.min(Math.max(tokens, 0), Number.MAX_SAFE_INTEGER)) || 0,
    cost_usd: facts.totalCost ?? (costs.length === 0 ? null : costs.reduce((sum, cost) => sum + cost, 0)),
  };
};

/** The last title of each kind counts that the session's own file has, else one that other files have of it. */
const titlesOf = (sql: Sql, id: string, { number, totals }: SourceRow) => {
  const rows = sql.all<{ kind: TitleKind; text: string }>(
    "SELECT kind, text FROM titles WHERE session_id = ? ORDER BY source = ?, rowid",
    id,
    number,
  );
  const titles = new Map(rows.map(({ kind, text }) => [kind, text]));
  return {
    title: titleKinds.map((kind) => titles.get(kind) ?? "").find((title) => title !== "") ?? "",
    summary: titles.get("summary") ?? totals.prompt ?? "",
  };
};

/** A session's own answer has this besides. */
const metaOf = ({ source, facts }: SourceRow): Omit<SessionMeta, keyof Session> => ({
  project_encoded: source.project_encoded,
  cwd: facts.cwd,
  transcript_path: source.path,
  file_size_bytes: source.size,
  codename: facts.slugs.at(-1) ?? "",
});
