import { ServiceError } from "../contract/errors.ts";
import type { Handlers } from "../contract/operation.ts";
import type { TranscriptOperations } from "../contract/transcript.ts";
import { abridged, cutText, fitting } from "./answer-size.ts";
import { instantOf } from "./json.ts";
import type { Library } from "./library.ts";
import type { SemanticSearch } from "./semantic-search.ts";

/** The caller's own session, if it is known which one that is. `none`: the caller is a person. */
export type LiveSession = { id: string } | "unknown" | "none";

type Dependencies = {
  library: Library;
  /** Null: there is no model for it. */
  semantic: SemanticSearch | null;
  liveSession: LiveSession;
  answerBytes: number;
  now: () => number;
};

const success = true as const;

export const searchHandlers = ({
  library,
  semantic,
  liveSession,
  answerBytes,
  now,
}: Dependencies): Pick<Handlers<TranscriptOperations>, "search_sessions" | "search_semantic"> => {
  const excluded = (includeActive: boolean): string[] => {
    if (includeActive || liveSession === "none") return [];
    if (liveSession !== "unknown") return [liveSession.id];
    const active = { project: "", limit: 1000, offset: 0, updatedSince: now() - 60_000 };
    return library.listSessions(active).items.map(({ session_id }) => session_id);
  };

  return {
    search_sessions: async ({ query, project, limit, since, until, role, cursor, include_active }) => {
      const { total, nextCursor, matches } = library.search({
        query,
        project,
        limit,
        role,
        cursor,
        since: instantOf(since),
        until: instantOf(until, "end of day"),
        exclude: excluded(include_active),
      });
      const { items, cut } = fitting(
        matches,
        (match, room) => ({ ...match, content_preview: cutText(match.content_preview, room - 1000) }),
        answerBytes,
      );
      const hint = "Not all matches of this page fit: ask again with a smaller limit";
      const page = { count: items.length, total, next_cursor: nextCursor, matches: items };
      return { success, query, ...page, ...(cut && { truncated: true, hint }) };
    },

    search_semantic: async ({ query, project, limit, include_active }, { signal }) => {
      const exclude = excluded(include_active);
      if (semantic !== null) {
        const { passages, hint } = await semantic({ query, project, limit, exclude }, signal);
        const matches = passages.map(({ text, ...match }) => ({
          ...match,
          text_preview: abridged(text, previewCharacters),
        }));
        return { success, query, mode: "semantic", count: matches.length, matches, ...(hint && { hint }) };
      }
      const everything = { since: null, until: null, role: "", cursor: "" } as const;
      const question = { ...everything, query: anyWordOf(query), project, limit, exclude };
      const { matches: found } = library.search(question);
      const matches = found.map(
        ({ session_id, project_path, timestamp, position, content_preview, score }) => ({
          session_id,
          chunk_idx: position,
          project: project_path,
          timestamp,
          text_preview: abridged(content_preview, previewCharacters),
          score,
        }),
      );
      return { success, query, mode: "lexical", count: matches.length, matches };
    },
  };
};

const previewCharacters = 300;

/** A question in plain words as a query for passages with any of them. */
const anyWordOf = (query: string): string => {
  const words = new Set(query.match(/[\p{L}\p{N}]+/gu));
  if (words.size === 0) throw new ServiceError("invalid_request", "query: must have a word");
  return [...words].map((word) => `"${word}"`).join(" OR ");
};
