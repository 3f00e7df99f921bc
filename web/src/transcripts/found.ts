import { useInfiniteQuery } from "@tanstack/react-query";
import type { Match, Session } from "../../../src/contract/transcript.ts";
import { useAddress } from "../parts/address.ts";
import { askBridge } from "./bridge.tsx";

export const roles = ["user", "assistant", "system", "summary"] as const;

/** What is searched for, as the address has it. Empty: not narrowed; without words the newest sessions are listed. */
export type Asked = { q: string; project: string; role: (typeof roles)[number] | ""; since: string };

const read = (value: (name: string) => string): Asked => {
  const role = roles.find((each) => each === value("role")) ?? "";
  return { q: value("q"), project: value("project"), role, since: value("since") };
};

export const useAsked = () => useAddress(read);

/** A session, or the best hit in one. */
export type Found = { session: Session } | { match: Match };

/** `next`: where the next page begins, as text; null: there is none. */
type Page = { found: Found[]; total: number; next: string | null };

const pageSize = 50;

/** The sessions that fit, a page at a time: by words the best first, else the last updated first. */
export const useFound = (asked: Asked) =>
  useInfiniteQuery({
    queryKey: ["bridge", "found", asked],
    queryFn: ({ pageParam, signal }) =>
      asked.q.trim() === "" ? newest(asked, Number(pageParam), signal) : hits(asked, pageParam, signal),
    initialPageParam: "",
    getNextPageParam: ({ next }: Page) => next,
    retry: false,
    // While other words are searched for, the list stays.
    placeholderData: (before) => before,
  });

const hits = async (
  { q: query, project, role, since }: Asked,
  cursor: string,
  signal: AbortSignal,
): Promise<Page> => {
  const input = { query, project, role, since, cursor, limit: pageSize, include_active: true };
  const { matches, total, next_cursor: next } = await askBridge("search_sessions", input, signal);
  return { found: matches.map((match) => ({ match })), total, next };
};

const newest = async ({ project, since }: Asked, offset: number, signal: AbortSignal): Promise<Page> => {
  const hours = since === "" ? 0 : Math.ceil((Date.now() - Date.parse(since)) / 3_600_000);
  const input = { project, since_hours: Math.max(0, hours || 0), limit: pageSize, offset };
  const { sessions, total } = await askBridge("list_sessions", input, signal);
  const end = offset + sessions.length;
  return {
    found: sessions.map((session) => ({ session })),
    total,
    next: end < total && sessions.length > 0 ? String(end) : null,
  };
};
