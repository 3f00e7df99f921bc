import { ServiceError } from "../contract/errors.ts";
import type { Handlers } from "../contract/operation.ts";
import type { TranscriptOperations } from "../contract/transcript.ts";
import { cutText, fitting, jsonBytes, textWithin } from "./answer-size.ts";
import { instantOf } from "./json.ts";
import type { Library } from "./library.ts";
import { readOn } from "./session-handlers.ts";

const success = true as const;

export const catalogHandlers = (
  library: Library,
  answerBytes: number,
): Pick<
  Handlers<TranscriptOperations>,
  "list_memory_files" | "get_memory_file" | "list_plans" | "get_plan" | "search_history"
> => ({
  list_memory_files: async ({ project }) => {
    const { items: files, cut } = fitting(library.memoryFiles(project), (file) => file, answerBytes);
    const hint = "These are not all; narrow them with project";
    return { success, count: files.length, files, ...(cut && { truncated: true, hint }) };
  },

  get_memory_file: async ({ project, filename, offset }) => ({
    success,
    ...partOf(memoryFile(library, project, filename), { offset, answerBytes }),
  }),

  list_plans: async ({ include_agent_plans: agentPlans, offset, ...filter }) => {
    const { total, items } = library.plans({ ...filter, offset, agentPlans });
    const { items: plans, cut } = fitting(items, (each) => each, answerBytes);
    const count = plans.length;
    return { success, count, offset, total, plans, ...(cut && readOn(offset + count)) };
  },

  get_plan: async ({ codename, include_agent_plans, offset }) => {
    const { is_agent_plan: _, parent_codename: __, ...found } = knownPlan(library, codename);
    const plan = partOf(found, { offset, answerBytes });
    // They follow the end of the plan.
    const agents = include_agent_plans && !("truncated" in plan) ? library.agentPlans(codename) : [];
    const { items, cut } = fitting(
      agents.map((each) => ({
        codename: each.codename,
        content: each.content,
        file_size_bytes: each.file_size_bytes,
        last_modified: each.last_modified,
      })),
      (each, room) => ({ ...each, content: cutText(each.content, room - 200) }),
      answerBytes - jsonBytes(plan),
    );
    const hint = `The plans of ${agents.length} subagents do not fit; get_plan reads each by its codename: list_plans with include_agent_plans shows them`;
    return { success, ...plan, agent_plans: items, ...(cut && { truncated: true, hint }) };
  },

  search_history: async ({ session_id: sessionId, since, offset, ...filter }) => {
    const { total, items } = library.history({ ...filter, sessionId, offset, since: instantOf(since) });
    const { items: entries, cut } = fitting(
      items,
      (entry, room) => ({ ...entry, display: cutText(entry.display, room - 1000) }),
      answerBytes,
    );
    const count = entries.length;
    return { success, total, count, offset, entries, ...(cut && readOn(offset + count)) };
  },
});

/** @throws ServiceError memory_not_found */
const memoryFile = (library: Library, project: string, filename: string) => {
  const file = library.memoryFile(project, filename);
  if (file !== null) return file;
  const name = JSON.stringify(`${project}/${filename}`.slice(0, 200));
  throw new ServiceError("memory_not_found", `There is no memory file ${name}; see list_memory_files`);
};

/** @throws ServiceError plan_not_found */
const knownPlan = (library: Library, codename: string) => {
  const plan = library.plan(codename);
  if (plan !== null) return plan;
  const name = JSON.stringify(codename.slice(0, 200));
  throw new ServiceError("plan_not_found", `There is no plan ${name}; list_plans shows the codenames`);
};

/** A document from `offset` on, as far as an answer holds it. */
const partOf = <Document extends { content: string }>(
  document: Document,
  { offset, answerBytes }: { offset: number; answerBytes: number },
) => {
  const rest = document.content.slice(offset);
  const content = textWithin(rest, answerBytes - jsonBytes({ ...document, content: "" }));
  const part = { ...document, content, content_length: document.content.length };
  return content.length === rest.length ? part : { ...part, ...readOn(offset + content.length) };
};
