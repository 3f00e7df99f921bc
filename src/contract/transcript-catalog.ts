import { z } from "zod";
import { count, instant, limit, offset, project, time, tool, total } from "./transcript-tool.ts";

/** The tools over memory files, plans and the prompt history. */

const DocumentFile = {
  file_size_bytes: z.int(),
  last_modified: z.string(),
};

const contentOffset = offset.describe(
  "How many characters of the content to skip: where `hint` says to read on",
);
const content_length = z.int().describe("Characters of the whole content");

const MemoryFile = z.object({
  project_path: z.string(),
  project_encoded: z.string(),
  filename: z.string(),
  ...DocumentFile,
});
export type MemoryFile = z.infer<typeof MemoryFile>;

const Plan = z.object({
  codename: z.string(),
  ...DocumentFile,
  is_agent_plan: z.boolean(),
  parent_codename: z.string().nullable(),
  session_ids: z.array(z.string()),
  project_path: z.string(),
});
export type Plan = z.infer<typeof Plan>;

export const catalogOperations = {
  list_memory_files: tool({
    title: "List memory files",
    command: { name: "memory", group: "Read" },
    summary: "Memory files that agents keep for each project, without their content.",
    input: { project },
    output: { count, files: z.array(MemoryFile) },
  }),
  get_memory_file: tool({
    title: "Get a memory file",
    command: { name: "memory", args: ["project", "filename"], group: "Read" },
    summary: "One memory file with its content.",
    input: {
      project: z.string().describe("The project's encoded name, from list_memory_files"),
      filename: z.string().default("MEMORY.md").describe("Name of the file"),
      offset: contentOffset,
    },
    output: { ...MemoryFile.shape, content: z.string(), content_length },
    errors: ["memory_not_found"],
  }),
  list_plans: tool({
    title: "List plans",
    command: { name: "plans", group: "Read" },
    summary: "Plans that agents wrote, the last modified first, without their content.",
    input: {
      project,
      codename: z.string().max(500).default("").describe("Only plans whose codename contains this text"),
      limit: limit(30, 500),
      offset,
      include_agent_plans: z.boolean().default(false).describe("Whether to list the plans of subagents"),
    },
    output: { count, offset: z.int(), total, plans: z.array(Plan) },
  }),
  get_plan: tool({
    title: "Get a plan",
    command: { name: "plans", args: ["codename"], group: "Read" },
    summary: "One plan with its content.",
    input: {
      codename: z.string().describe("The plan's codename, from list_plans"),
      include_agent_plans: z.boolean().default(false).describe("Whether to add the plans of its subagents"),
      offset: contentOffset,
    },
    output: {
      ...Plan.omit({ is_agent_plan: true, parent_codename: true }).shape,
      content: z.string(),
      content_length,
      agent_plans: z.array(z.object({ codename: z.string(), content: z.string(), ...DocumentFile })),
    },
    errors: ["plan_not_found"],
  }),
  search_history: tool({
    title: "Search the prompt history",
    command: { name: "history", args: ["query"], group: "Read" },
    summary:
      "Prompts that users typed, the newest first; also of sessions whose transcript is no longer there.",
    input: {
      query: z.string().max(1000).default("").describe("Text that the prompt contains; empty: all"),
      project,
      session_id: z.string().max(200).default("").describe("Only prompts of this session"),
      limit: limit(20, 500),
      offset,
      since: instant("Only prompts from this time on"),
    },
    output: {
      total,
      count,
      offset: z.int(),
      entries: z.array(
        z.object({ display: z.string(), timestamp: time, project: z.string(), session_id: z.string() }),
      ),
    },
  }),
};
