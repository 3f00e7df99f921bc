import { z } from "zod";
import { DetailedEntry, Entry, entryTypes } from "./transcript-entry.ts";
import { catalogOperations } from "./transcript-catalog.ts";
import { dispatchOperations } from "./transcript-dispatch.ts";
import { count, instant, limit, offset, project, SessionId, time, tool, total } from "./transcript-tool.ts";

/** The 16 tools of the transcript service. Times are ISO 8601 in UTC; sizes are bytes. */

/** `service`: the transcript service's own sessions (summaries), which are in no list and no search. */
const sessionKinds = ["session", "job", "chat", "service"] as const;
export type SessionKind = (typeof sessionKinds)[number];

export const Session = z.object({
  session_id: z.string(),
  project_path: z.string().describe("Its job's repository, else its directory; empty: unknown"),
  git_branch: z.string(),
  start_time: time,
  last_update: time,
  num_user_turns: z.int(),
  num_assistant_turns: z.int(),
  num_tool_calls: z.int(),
  summary: z.string().describe("The session's own summary, else its first prompt; at most 200 characters"),
  has_subagents: z.boolean(),
  title: z.string(),
  model: z.string().describe("The model that answered last; empty: none"),
  cost_usd: z.number().nullable().describe("USD, as the agent reports it; null: not reported"),
  total_tokens: z.int().describe("Input, output and cache tokens of all answers"),
  job_id: z.string().nullable().describe("The job of the orchestrator that ran it"),
  kind: z.enum(sessionKinds).describe("Who ran it: a user, a job or a chat conversation"),
});
export type Session = z.infer<typeof Session>;

export const SessionMeta = Session.omit({
  title: true,
  model: true,
  cost_usd: true,
  total_tokens: true,
  job_id: true,
  kind: true,
})
  .extend({
    project_encoded: z.string().describe("Name of the project's directory"),
    cwd: z.string(),
    transcript_path: z.string(),
    file_size_bytes: z.int(),
    codename: z.string().describe("Name of the session's plan; empty: none"),
  })
  .loose();
export type SessionMeta = z.infer<typeof SessionMeta>;

export const actionTypes = ["tool_use", "tool_result", "file_change", "command", "error"] as const;
export type ActionType = (typeof actionTypes)[number];

export const Action = z.object({
  type: z.enum(actionTypes),
  name: z.string().describe("The tool"),
  target: z.string().describe("The file, the command, or the beginning of the input or result"),
  timestamp: time,
  is_error: z.boolean(),
});
export type Action = z.infer<typeof Action>;

const Match = z.object({
  session_id: z.string(),
  project_path: z.string(),
  entry_type: z.enum(entryTypes),
  content_preview: z.string().describe("The text around the hit; hits are between » and «"),
  timestamp: time,
  uuid: z.string(),
  position: z
    .int()
    .describe(
      "Offset for get_session_segment of the entry that has the hit; for a subagent's: of the one at that time",
    ),
  score: z.number().describe("Higher is better; comparable within one answer"),
  num_hits: z.int().describe("Entries of this session that match"),
});
export type Match = z.infer<typeof Match>;

/** What a look at the files has brought. */
const Collected = z.object({
  files_scanned: z.int(),
  sessions_updated: z.int(),
  entries_added: z.int(),
  memory_files_indexed: z.int(),
  plans_indexed: z.int(),
  history_entries_added: z.int(),
  duration_ms: z.int(),
});
export type Collected = z.infer<typeof Collected>;

const includeActive = z
  .boolean()
  .default(false)
  .describe(
    "Whether to search the caller's own session too. Unless the client names it (Claude Code over stdio), sessions updated in the last minute count as the caller's own",
  );

const toModel = { openWorld: true } as const;

const sessionOperations = {
  list_sessions: tool({
    title: "List sessions",
    command: { name: "sessions", group: "Read" },
    summary: "Sessions of coding agents, the last updated first.",
    input: {
      project,
      limit: limit(20, 500),
      offset,
      since_hours: z
        .int()
        .min(0)
        .max(1_000_000)
        .default(0)
        .describe("Only sessions updated in the last hours; 0: all"),
    },
    output: { count, offset: z.int(), total, sessions: z.array(Session) },
  }),
  get_session: tool({
    title: "Get a session",
    command: { name: "show", args: ["session_id"], group: "Read" },
    summary: "One session: what is known about it, and its last entries.",
    input: {
      session_id: SessionId,
      last_n: z.int().min(0).max(10_000).default(50).describe("How many of the last entries; 0: all"),
      include_meta: z.boolean().default(true).describe("Whether to answer with `meta`"),
      max_chars: z
        .int()
        .min(0)
        .max(1_000_000)
        .default(0)
        .describe("Longest content of an entry, in characters; 0: whole"),
    },
    truncated: z.boolean(),
    output: {
      meta: SessionMeta.optional(),
      entries: z.array(Entry),
      entry_count: z.int().describe("Entries in this answer"),
    },
    errors: ["session_not_found"],
  }),
  get_session_segment: tool({
    title: "Get a part of a session",
    summary: "Entries of a session by position, or within a time. Both may be combined.",
    input: {
      session_id: SessionId,
      offset,
      limit: limit(20, 1000),
      since: instant("Only entries from this time on"),
      until: instant("Only entries up to this time"),
      details: z
        .boolean()
        .default(false)
        .describe("Whether to answer with thinking, inputs of tools and their results, long ones cut"),
    },
    truncated: z.boolean(),
    output: {
      session_id: z.string(),
      total_count: z.int().describe("Entries of the session within the time"),
      offset: z.int(),
      count,
      entries: z.array(DetailedEntry),
    },
    errors: ["session_not_found"],
  }),
  get_session_actions: tool({
    title: "Get the actions of a session",
    summary: "What the agent did: tool calls with their targets, changed files, commands, errors.",
    input: {
      session_id: SessionId,
      action_types: z
        .string()
        .max(200)
        .default("tool_use")
        .describe(`Which, separated by commas: ${actionTypes.join(", ")}`),
      offset,
    },
    truncated: z.boolean(),
    output: {
      session_id: z.string(),
      total_tool_calls: z.int(),
      unique_tools: z.int(),
      tools: z.array(z.object({ name: z.string(), count: z.int() })),
      actions: z.array(Action),
    },
    errors: ["session_not_found"],
  }),
  search_sessions: tool({
    title: "Search sessions",
    command: { name: "search", args: ["query"], group: "Read" },
    summary:
      'Full-text search in everything that users, agents and tools said. Words must all occur; "a phrase", OR, -not and prefix* work. One match per session, the best first. Leaves out your own session, unless include_active is set.',
    input: {
      query: z.string().min(1).max(1000).describe("Words to search for"),
      project,
      limit: limit(10, 100),
      since: instant("Only entries from this time on"),
      until: instant("Only entries up to this time"),
      role: z
        .enum(["", ...entryTypes])
        .default("")
        .describe("Only entries of this type"),
      cursor: z.string().max(500).default("").describe("next_cursor of the previous page"),
      include_active: includeActive,
    },
    output: {
      query: z.string(),
      count,
      total: z.int().describe("Sessions that match"),
      next_cursor: z.string().nullable(),
      matches: z.array(Match),
    },
  }),
  collect_now: tool({
    title: "Collect now",
    command: { name: "collect", group: "Read" },
    summary: "Read what is new in the transcript files at once, instead of at the next poll.",
    input: {},
    output: Collected.shape,
    annotations: { readOnly: false },
  }),
  search_semantic: tool({
    title: "Search by meaning",
    summary:
      "Passages nearest in meaning to the query. Without an embedding model it searches by words and says so (mode: lexical). Leaves out your own session, unless include_active is set.",
    input: {
      query: z.string().min(1).max(1000).describe("What to look for, in your own words"),
      project,
      limit: limit(10, 100),
      include_active: includeActive,
    },
    output: {
      query: z.string(),
      mode: z.enum(["semantic", "lexical"]),
      count,
      matches: z.array(
        z.object({
          session_id: z.string(),
          chunk_idx: z.int().describe("Where it begins: the offset for get_session_segment"),
          project: z.string(),
          timestamp: time,
          text_preview: z.string(),
          score: z.number(),
        }),
      ),
    },
    annotations: toModel,
    errors: ["model_failed"],
  }),
  generate_summary: tool({
    title: "Summarise a session",
    summary:
      "A summary of a session in two or three sentences. Without a chat model: its own words (model: null).",
    input: { session_id: SessionId },
    output: { session_id: z.string(), summary: z.string(), model: z.string().nullable() },
    annotations: toModel,
    errors: ["session_not_found", "model_failed"],
  }),
  restore_session: tool({
    title: "Restore a session",
    summary: "The last entries of a session as one text, to continue it in a new conversation.",
    input: {
      session_id: SessionId,
      last_n: z.int().min(1).max(1000).default(20).describe("How many of the last entries"),
    },
    output: {
      session_id: z.string(),
      context: z.string(),
      char_count: z.int(),
      resume_command: z.string().describe("Command that resumes the session on its machine"),
    },
    errors: ["session_not_found"],
  }),
};

export const transcriptOperations = { ...sessionOperations, ...dispatchOperations, ...catalogOperations };

export type TranscriptOperations = typeof transcriptOperations;
