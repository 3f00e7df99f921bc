import type { ChunkStore } from "./chunk-store.ts";
import type { MemoryFile, Plan } from "../contract/transcript-catalog.ts";
import type { Source } from "./corpus.ts";
import { sourcesWhere, type SourceRow } from "./session-row.ts";
import type { Sql } from "./sqlite-file.ts";
import type { Library } from "./library.ts";
import { toTime } from "./json.ts";

type Document = Pick<SourceRow, "number" | "source">;

/** Memory files, plans and the prompt history. */
export const createDocuments = (
  sql: Sql,
  chunkStore: ChunkStore,
): Pick<Library, "memoryFiles" | "memoryFile" | "plans" | "plan" | "agentPlans" | "history"> => {
  const documents = (kind: "plan" | "memory"): Document[] =>
    sourcesWhere(sql, "kind = ?", kind).toSorted(
      ({ source: a }, { source: b }) => b.modified - a.modified || (a.id < b.id ? -1 : 1),
    );

  const contentOf = ({ number }: Document): string =>
    Buffer.concat([...chunkStore.chunks(number)]).toString("utf8");

  /** The project path comes from a session of the same directory; the directory's name is ambiguous. */
  const toMemoryFile = (projects: Map<string, string>, { source }: Document): MemoryFile => ({
    project_path: projects.get(source.project_encoded) ?? "",
    project_encoded: source.project_encoded,
    filename: fileName(source),
    ...facts(source),
  });

  const projectPaths = (): Map<string, string> =>
    new Map(
      sql
        .all<{ encoded: string; project: string }>(
          `SELECT json_extract(record, '$.project_encoded') AS encoded, MIN(project) AS project
           FROM sessions JOIN sources ON sources.number = sessions.source WHERE project <> '' GROUP BY 1`,
        )
        .map(({ encoded, project }) => [encoded, project]),
    );

  const toPlan = ({ source }: Document): Plan => {
    const parent = parentOf(source.name);
    const sessions = sessionsOf(source.name);
    const known = sessions.length === 0 && parent !== null ? sessionsOf(parent) : sessions;
    return {
      codename: source.name,
      ...facts(source),
      is_agent_plan: parent !== null,
      parent_codename: parent,
      session_ids: known.map(({ id }) => id),
      project_path: known.find(({ project }) => project !== "")?.project ?? "",
    };
  };

  const sessionsOf = (slug: string): { id: string; project: string }[] =>
    sql.all(
      `SELECT DISTINCT sessions.id, project FROM slugs JOIN sources ON sources.number = slugs.source
       JOIN sessions ON sessions.id = sources.session_id
       WHERE slug = ? AND sessions.kind <> 'service' ORDER BY updated DESC, sessions.id`,
      slug,
    );

  /** The newest: several homes may have a plan of this name. */
  const latest = (found: readonly Document[]): Document[] =>
    [
      ...new Map(found.toReversed().map((document) => [document.source.name, document])).values(),
    ].toReversed();

  return {
    memoryFiles: (project) => {
      const projects = projectPaths();
      return documents("memory")
        .map((document) => toMemoryFile(projects, document))
        .filter((file) => file.project_path.includes(project) || file.project_encoded.includes(project));
    },
    memoryFile: (projectEncoded, filename) => {
      const document = documents("memory").find(
        ({ source }) => source.project_encoded === projectEncoded && fileName(source) === filename,
      );
      return document === undefined
        ? null
        : { ...toMemoryFile(projectPaths(), document), content: contentOf(document) };
    },
    plans: ({ project, codename, limit, offset, agentPlans }) => {
      const plans = latest(documents("plan"))
        .filter(
          ({ source }) => source.name.includes(codename) && (agentPlans || parentOf(source.name) === null),
        )
        .map(toPlan)
        .filter((plan) => plan.project_path.includes(project));
      return { total: plans.length, items: plans.slice(offset, offset + limit) };
    },
    plan: (codename) => {
      const document = documents("plan").find(({ source }) => source.name === codename);
      return document === undefined ? null : { ...toPlan(document), content: contentOf(document) };
    },
    agentPlans: (codename) =>
      latest(documents("plan"))
        .filter(({ source }) => parentOf(source.name) === codename)
        .map((document) => ({ ...toPlan(document), content: contentOf(document) })),
    history: ({ query, project, sessionId, limit, offset, since }) => {
      const projectOf = "iif(sessions.job_id IS NULL, prompts.project, sessions.project)";
      const where = `FROM prompts LEFT JOIN sessions ON sessions.id = prompts.session_id WHERE (? = '' OR instr(lower(searched), lower(?)) > 0)
        AND (? = '' OR instr(${projectOf}, ?) > 0) AND (? = '' OR session_id = ?) AND (? IS NULL OR at >= ?)
        AND kind IS NOT 'service'`;
      const filter = [query, query, project, project, sessionId, sessionId, since, since];
      const rows = sql.all<{ display: string; at: number | null; project: string; session_id: string }>(
        `SELECT display, at, ${projectOf} AS project, session_id ${where} ORDER BY at DESC, prompts.rowid DESC LIMIT ? OFFSET ?`,
        ...filter,
        limit,
        offset,
      );
      return {
        total: sql.first<{ total: number }>(`SELECT COUNT(*) AS total ${where}`, ...filter)?.total ?? 0,
        items: rows.map(({ at, ...entry }) => ({ ...entry, timestamp: toTime(at) })),
      };
    },
  };
};

/** `NAME-agent-<hex>` is a plan of a subagent of the session that has the plan NAME. */
const parentOf = (codename: string): string | null => /^(.+)-agent-[0-9a-f]+$/.exec(codename)?.[1] ?? null;

const fileName = ({ path }: Source): string => path.slice(path.lastIndexOf("/") + 1);

const facts = ({ size, modified }: Source) => ({
  file_size_bytes: size,
  last_modified: new Date(modified).toISOString(),
});
