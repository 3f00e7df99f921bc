import type { Action, ActionType, Match, Session, SessionMeta } from "../contract/transcript.ts";
import type { Entry, EntryType } from "../contract/transcript-entry.ts";
import type { Redact } from "../lib/redact.ts";
import type { MemoryFile, Plan } from "../contract/transcript-catalog.ts";

/** The tools read from it. Text is as collected: masking and the bound on answers are applied above. */
export type Library = {
  listSessions: (filter: {
    project: string;
    limit: number;
    offset: number;
    /** Unix time, ms; 0: all. */
    updatedSince: number;
  }) => Page<Session>;
  /** Null: there is no such session. */
  session: (id: string) => (SessionMeta & Session) | null;
  /** Counts what could not be read in lines that were collected, for `bridge status`. */
  unread: () => { damaged_lines: number; unknown_lines: Record<string, number> };
  /** At most three whose id, or the UUID at its end, begins so. */
  sessionsStartingWith: (beginning: string) => string[];
  /** In the order of the file. Negative `offset`: from the end. `since` and `until`: Unix time, ms; null: no bound. */
  entries: (
    id: string,
    range: { offset: number; limit: number; since: number | null; until: number | null; details?: boolean },
  ) => Page<Entry>;
  actions: (
    id: string,
    types: readonly ActionType[],
  ) => Promise<{ calls: Map<string, number>; actions: Action[] }>;
  /**
   * `mask` is applied to the text of an entry before its preview is cut out of it.
   * @throws ServiceError invalid_request when the query has no word or is not well formed
   */
  search: (
    question: SearchQuestion,
    mask?: Redact,
  ) => { total: number; nextCursor: string | null; matches: Match[] };
  memoryFiles: (project: string) => MemoryFile[];
  memoryFile: (projectEncoded: string, filename: string) => (MemoryFile & { content: string }) | null;
  plans: (filter: {
    project: string;
    codename: string;
    limit: number;
    offset: number;
    agentPlans: boolean;
  }) => Page<Plan>;
  plan: (codename: string) => (Plan & { content: string }) | null;
  /** Plans whose parent is this plan. */
  agentPlans: (codename: string) => (Plan & { content: string })[];
  history: (filter: {
    query: string;
    project: string;
    sessionId: string;
    limit: number;
    offset: number;
    since: number | null;
  }) => Page<HistoryEntry>;
};

type Page<Item> = { total: number; items: Item[] };

type HistoryEntry = { display: string; timestamp: string | null; project: string; session_id: string };

export type SearchQuestion = {
  query: string;
  project: string;
  limit: number;
  since: number | null;
  until: number | null;
  role: EntryType | "";
  cursor: string;
  /** Sessions that are left out: the caller's own. */
  exclude: readonly string[];
};
