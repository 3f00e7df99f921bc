import type { Source } from "./corpus.ts";
import type { Facts } from "./facts.ts";
import { rangeOf } from "./index-schema.ts";
import type { Sql } from "./sqlite-file.ts";
import { titleKinds, type TitleKind } from "./transcript-line.ts";

export type SourceRow = { number: number; source: Source; facts: Facts };

/** Sums over the entries that a source has not from elsewhere. */
export type Totals = {
  prompts: number;
  answers: number;
  calls: number | null;
  tokens: number | null;
  cost: number | null;
  /** The prompt that names the session: the first that is no command without a word, such as `/clear`. */
  prompt: string | null;
};

export type StoredSource = { number: number; record: string; facts: string };
type CountedSource = SourceRow & { totals: Totals };

/** Counts the entries of a source anew. Of several lines of one answer the last says what it cost. */
export const refreshTotals = (sql: Sql, number: number): void =>
  void sql.run(
    `WITH own AS (SELECT * FROM entries WHERE id BETWEEN ?1 AND ?2 AND inherited = 0),
       answers AS (SELECT turn, tokens, cost, MAX(id) FROM own WHERE turn OR tokens OR cost GROUP BY answer)
     UPDATE sources SET totals = (SELECT json_object(
       'prompts', COUNT(prompt), 'calls', SUM(calls),
       'answers', (SELECT COUNT(*) FROM answers WHERE turn),
       'tokens', (SELECT SUM(tokens) FROM answers), 'cost', (SELECT SUM(cost) FROM answers),
       'prompt', (SELECT prompt FROM own WHERE prompt NOT NULL ORDER BY prompt GLOB '/*' AND instr(prompt, ' ') = 0, id)
     ) FROM own) WHERE number = ?3`,
    ...rangeOf(number),
    number,
  );

export const toSourceRow = ({ number, record, facts }: StoredSource): SourceRow => ({
  number,
  source: JSON.parse(record) as Source,
  facts: JSON.parse(facts) as Facts,
});

type Origin = { kind: string; job_id: string | null; project: string };

/** Derives the row of a session from its sources and origins: it does not matter in which order they came. */
export const refreshSession = (sql: Sql, id: string): void => {
  const sources = sql
    .all<StoredSource & { totals: string }>(
      "SELECT number, record, facts, totals FROM sources WHERE session_id = ? AND session_id <> '' AND kind IN ('session', 'subagent', 'codex')",
      id,
    )
    .map((row): CountedSource => ({ ...toSourceRow(row), totals: JSON.parse(row.totals) as Totals }));
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
  // "INSERT OR REPLACE" is a savepoint, at which FTS5 writes what it has gathered.
  sql.run("DELETE FROM sessions WHERE id = ?", id);
  if (main === undefined) return;
  const [origin = { kind: "session", job_id: null, project: "" }] = sql.all<Origin>(
    "SELECT kind, job_id, project FROM origins WHERE session_id = ? ORDER BY at DESC, rowid DESC LIMIT 1",
    id,
  );
  const own = [main, ...subagents.filter((source) => source !== main)];
  sql.run(
    "UPDATE sources SET counted = 1 - counted WHERE session_id = ? AND session_id <> '' AND counted <> (number IN (SELECT value FROM json_each(?)))",
    id,
    JSON.stringify(own.map(({ number }) => number)),
  );
  const costs = own.flatMap(({ totals }) => totals.cost ?? []);
  const tokens = own.reduce((sum, { facts, totals }) => sum + facts.totalTokens + (totals.tokens ?? 0), 0);
  const titles = titlesOf(sql, id, main.number);
  sql.run(
    `INSERT INTO sessions (id, source, kind, job_id, project, updated, tokens, cost, subagents, turns, title, summary)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    id,
    main.number,
    origin.kind,
    origin.job_id,
    origin.project || main.facts.project,
    Math.max(...own.map(({ facts }) => facts.last ?? 0)) || Math.trunc(main.source.modified),
    // A nonsensical number in one transcript would make every list of sessions invalid.
    Math.trunc(Math.min(Math.max(tokens, 0), Number.MAX_SAFE_INTEGER)) || 0,
    main.facts.totalCost ?? (costs.length === 0 ? null : costs.reduce((sum, cost) => sum + cost, 0)),
    subagents.length > 0 ? 1 : 0,
    main.totals.prompts + main.totals.answers,
    titleKinds.map((kind) => titles.get(kind) ?? "").find((title) => title !== "") ?? "",
    titles.get("summary") ?? main.totals.prompt ?? "",
  );
};

/** Titles of a session by their kinds: the last ones of its own file, else those that other files have of it. */
const titlesOf = (sql: Sql, id: string, main: number): Map<TitleKind, string> =>
  new Map(
    sql
      .all<{ kind: TitleKind; text: string }>(
        "SELECT kind, text FROM titles WHERE session_id = ? ORDER BY source = ?, rowid",
        id,
        main,
      )
      .map(({ kind, text }) => [kind, text]),
  );
