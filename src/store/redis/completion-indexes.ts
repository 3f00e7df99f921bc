import { isCompletionFinal, type CompletionStatus } from "../../contract/completion.ts";
import type { Kv } from "../../kv/kv.ts";
import { isUnfinished, type CompletionRecord } from "../completion-store.ts";
import { dropEntry } from "./dated-index.ts";

/** `all`, `unfinished`, or a final status. */
type IndexName = "all" | "unfinished" | "completed" | "failed" | "cancelled";

type Entry = { uuid: string; created: number };

/** A writer that has told the index and not yet written the record gets this long, ms. */
const grace = 600_000;

/** How many entries of an index are looked at in one sweep. */
const swept = 500;

export const indexOf = (status: CompletionStatus | "all"): IndexName =>
  status === "queued" || status === "running" ? "unfinished" : status;

export const createdOf = ({ created_at }: CompletionRecord): number => Date.parse(created_at);

/**
 * Sorted sets of uuids by creation, each a key in a slot of its own: no script can change one together with a record. An
 * index is told before the record is written and after it has left, so a crash in between leaves an entry too many and
 * never one too few; the record decides what an entry is worth.
 */
export const completionIndexes = (kv: Kv) => {
  const keyOf = (name: IndexName): string => kv.key("completions", name);
  const names: IndexName[] = ["all", "unfinished", "completed", "failed", "cancelled"];

  const drop = (name: IndexName, { uuid, created }: Entry): Promise<void> =>
    dropEntry(kv, keyOf(name), uuid, { upTo: created });

  return {
    names,
    add: async (name: IndexName, uuid: string, created: number): Promise<void> => {
      await kv.ask((client) => client.zadd(keyOf(name), created, uuid));
    },
    drop,
    /** Newest first, from the `start`th on. */
    page: (name: IndexName, start: number, count: number): Promise<string[]> =>
      kv.ask((client) => client.zrevrange(keyOf(name), start, start + count - 1)),
    /** Oldest first. */
    oldest: async (name: IndexName, count = swept): Promise<Entry[]> => {
      const last = String(count - 1);
      const flat = await kv.ask((client) => client.zrange(keyOf(name), "0", last, "WITHSCORES"));
      return flat.flatMap((uuid, at) => (at % 2 === 0 ? { uuid, created: Number(flat[at + 1]) } : []));
    },
  };
};

/** Whether an entry can go: its record is gone, or has left the index for good. */
export const isStale = (
  name: IndexName,
  { created }: Entry,
  record: CompletionRecord | null,
  now: number,
): boolean => {
  const isOld = now - created > grace;
  if (record === null) return isOld;
  if (name === "all" || isUnfinished(record)) return false;
  const isElsewhere = name === "unfinished" ? isCompletionFinal(record.status) : record.status !== name;
  // An entry newer than its record may be that of a turn whose record is being written.
  return isElsewhere && (createdOf(record) >= created || isOld);
};
