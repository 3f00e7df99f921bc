import { expect } from "vitest";
import type { TranscriptOperations } from "../../src/contract/transcript.ts";

/* Of each tool of the transcript service: a call that it answers, and one that it refuses. */

/** What the recorded home does not have. */
export const documents = [
  ["plans/calm-fox.md", "# Count the walruses"],
  ["projects/-home-user-temperature/memory/MEMORY.md", "Walruses are counted in pairs."],
  ["history.jsonl", '{"display":"Count them","timestamp":1772442900000,"project":"/home/user/app"}\n'],
] as const;

export const dispatched = { task_description: "scenario: noop" };
const unknown = { session_id: "../../etc/passwd" };

type Arguments = Record<string, unknown>;
type Known = { session_id: string; job_id: string };

export type Row = {
  asked: (known: Known) => Arguments;
  answer: Arguments;
  refused: (known: Known) => Arguments;
  code: string;
  /** Fields that differ from call to call. */
  varies?: string[];
};

export const rows: Record<keyof TranscriptOperations, Row> = {
  list_sessions: {
    asked: () => ({}),
    answer: { total: 11 },
    refused: () => ({ limit: -1 }),
    code: "invalid_request",
  },
  get_session: {
    asked: ({ session_id }) => ({ session_id }),
    answer: { entries: expect.anything() },
    refused: () => unknown,
    code: "session_not_found",
  },
  get_session_segment: {
    asked: ({ session_id }) => ({ session_id, offset: 1, limit: 2 }),
    answer: { count: 2 },
    refused: ({ session_id }) => ({ session_id, since: "yesterday" }),
    code: "invalid_request",
  },
  get_session_actions: {
    asked: ({ session_id }) => ({ session_id, action_types: "tool_use,command,error" }),
    answer: { session_id: expect.anything() },
    refused: ({ session_id }) => ({ session_id, action_types: "nonsense" }),
    code: "invalid_request",
  },
  search_sessions: {
    asked: () => ({ query: "walrus", include_active: true }),
    answer: { total: 1 },
    refused: () => ({ query: '"' }),
    code: "invalid_request",
  },
  search_semantic: {
    asked: () => ({ query: "walrus", include_active: true }),
    answer: { mode: "lexical", count: 1 },
    refused: () => ({ query: "" }),
    code: "invalid_request",
  },
  generate_summary: {
    asked: ({ session_id }) => ({ session_id }),
    answer: { model: null },
    refused: () => unknown,
    code: "session_not_found",
  },
  restore_session: {
    asked: ({ session_id }) => ({ session_id }),
    answer: { context: expect.stringContaining("walrus") },
    refused: () => unknown,
    code: "session_not_found",
  },
  dispatch_task: {
    asked: () => dispatched,
    answer: { dispatched: true, status: "running" },
    varies: ["job_id"],
    refused: () => ({ ...dispatched, project: "ftp://x/y" }),
    code: "invalid_repo_url",
  },
  get_dispatch_job: {
    asked: ({ job_id }) => ({ job_id }),
    answer: { status: "completed", task: dispatched.task_description },
    refused: () => ({ job_id: "x" }),
    code: "job_not_found",
  },
  list_memory_files: {
    asked: () => ({}),
    answer: { count: 1 },
    refused: () => ({ project: 7 }),
    code: "invalid_request",
  },
  get_memory_file: {
    asked: () => ({ project: "-home-user-temperature" }),
    answer: { content: documents[1][1] },
    refused: () => ({ project: "..", filename: "/etc/passwd" }),
    code: "memory_not_found",
  },
  list_plans: {
    asked: () => ({}),
    answer: { total: 1 },
    refused: () => ({ limit: 0 }),
    code: "invalid_request",
  },
  get_plan: {
    asked: () => ({ codename: "calm-fox" }),
    answer: { content: documents[0][1] },
    refused: () => ({ codename: "\0" }),
    code: "plan_not_found",
  },
  search_history: {
    asked: () => ({}),
    answer: { total: 1, entries: [{ display: "Count them" }] },
    refused: () => ({ since: "yesterday" }),
    code: "invalid_request",
  },
  collect_now: {
    asked: () => ({}),
    answer: { entries_added: 0 },
    varies: ["duration_ms"],
    refused: () => ({ nonsense: 1 }),
    code: "invalid_request",
  },
};
