import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Detail, Entry } from "../../../src/contract/transcript-entry.ts";
import { askBridge } from "../transcripts/bridge.ts";

type Part = { from: number; entries: Entry[]; total: number };
type Range = { from: number; size: number };

const partSize = 25;

/** How many entries are read before the one that is asked for. */
const before = 8;

export type Result = Extract<Detail, { kind: "result" }>;

/** The entries around position `at`, which grow both ways. */
export const useEntries = (id: string, at: number) => {
  const query = useInfiniteQuery({
    queryKey: ["bridge", "entries", id, at],
    queryFn: ({ pageParam, signal }) => readPart(id, pageParam, signal),
    initialPageParam: { from: Math.max(0, at - before), size: partSize },
    getPreviousPageParam: ({ from }: Part): Range | null =>
      from === 0 ? null : { from: Math.max(0, from - partSize), size: Math.min(partSize, from) },
    // Also at its end: a session may go on.
    getNextPageParam: ({ from, entries }: Part): Range => ({ from: from + entries.length, size: partSize }),
    staleTime: Infinity,
    structuralSharing: false,
    retry: false,
  });
  const parts = query.data?.pages;
  const loaded = useMemo(() => {
    const entries = (parts ?? []).flatMap((part) => part.entries);
    const results = entries.flatMap(({ details = [] }) => details.filter((each) => each.kind === "result"));
    return {
      first: parts?.[0]?.from ?? 0,
      entries,
      total: parts?.at(-1)?.total ?? 0,
      results: new Map(results.map((result) => [result.call_id, result])),
    };
  }, [parts]);
  return { query, ...loaded };
};

/** As many entries as asked for, or up to the end: one answer has as many as fit into it. */
const readPart = async (id: string, { from, size }: Range, signal: AbortSignal): Promise<Part> => {
  const entries: Entry[] = [];
  for (;;) {
    const offset = from + entries.length;
    const range = { session_id: id, offset, limit: size - entries.length, details: true };
    const part = await askBridge("get_session_segment", range, signal);
    entries.push(...part.entries);
    if (part.count === 0 || entries.length >= size)
      // The address may name an entry that there is not.
      return { from: Math.min(from, part.total_count), entries, total: part.total_count };
  }
};
