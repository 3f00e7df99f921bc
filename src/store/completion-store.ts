import { z } from "zod";
import {
  Completion,
  completionIdForm,
  isCompletionFinal,
  type CompletionStatus,
} from "../contract/completion.ts";
import { parseWith, type Kind, type Position, type Records } from "./records.ts";

/** A completion, and what only the service needs. */
export const CompletionRecord = z.object({
  ...Completion.shape,
  /** The instance that runs it, and its start. */
  pod_name: z.string(),
  epoch: z.string(),
  // Indexes and retention need valid times.
  created_at: z.iso.datetime(),
  ended_at: z.iso.datetime().nullable(),
});
export type CompletionRecord = z.infer<typeof CompletionRecord>;

export const isUnfinished = (record: Pick<CompletionRecord, "status">): boolean =>
  !isCompletionFinal(record.status);

/** Indexes by creation. */
const [all, unfinished] = ["completions", "completions:unfinished"];

/** No turn is longer, s. */
const longestTurn = 8 * 86_400;

/** A file each; or `{prefix}:completion:{uuid}` in the key-value store, where it expires by itself. */
export const completionKind = (ttlSeconds: number): Kind<CompletionRecord> => ({
  noun: "completion",
  key: "completion",
  isId: (uuid) => completionIdForm.test(uuid),
  parse: parseWith(CompletionRecord, (record, uuid) => record.uuid === uuid),
  entries: (record) => {
    const at = Date.parse(record.created_at);
    return [{ index: all, at }, ...(isUnfinished(record) ? [{ index: unfinished, at }] : [])];
  },
  expires: ({ ended_at }) => (ended_at === null ? null : Date.parse(ended_at) + ttlSeconds * 1000),
  inMemory: isUnfinished,
  literal: {
    seconds: (record) => (isUnfinished(record) ? 0 : Math.max(1, Math.ceil(ttlSeconds))),
    indexes: [all, unfinished],
    longest: longestTurn + ttlSeconds,
  },
});

/** The completion as the doors send it. */
export const toCompletion = ({ pod_name: _p, epoch: _e, ...completion }: CompletionRecord): Completion =>
  completion;

/** How many records are read at once. */
const pageSize = 50;

/**
 * Completions by the caller's uuid (`completionIdForm`). A final record expires `ttlSeconds` after its end; the answer for
 * an unknown or malformed id is null or false. Every function rejects with `ServiceError("store_unavailable")`.
 */
export const createCompletionStore = (records: Records<CompletionRecord>) => ({
  /** Writes a new record, also over a final one. False: a queued or running one has the id, and stays. */
  create: async (record: CompletionRecord): Promise<boolean> => {
    if (!completionIdForm.test(record.uuid))
      throw new Error("the id of a completion is letters, digits and -_.:");
    const { changed } = await records.change(record.uuid, (current) =>
      current !== null && isUnfinished(current) ? undefined : record,
    );
    return changed;
  },

  /**
   * Applies `changes` while the record belongs to that start of an instance and is not final, so that a final state is
   * written once; but the answer of one that was called lost is true. False: nothing was written.
   */
  update: async (uuid: string, epoch: string, changes: Partial<CompletionRecord>): Promise<boolean> => {
    const { changed } = await records.change(uuid, (current) =>
      current !== null &&
      current.epoch === epoch &&
      (isUnfinished(current) || (current.error_code === "instance_lost" && changes.status === "completed"))
        ? { ...current, ...changes, uuid }
        : undefined,
    );
    return changed;
  },

  get: records.get,

  /** Newest first by `created_at`, then uuid. */
  list: async ({
    limit,
    status,
  }: {
    limit: number;
    status: CompletionStatus | "all";
  }): Promise<CompletionRecord[]> => {
    const index = status === "queued" || status === "running" ? unfinished : all;
    const found: CompletionRecord[] = [];
    for await (const record of recordsIn(records, index)) {
      if (status === "all" || record.status === status) found.push(record);
      if (found.length === limit) break;
    }
    return found;
  },

  /** All that are queued or running. */
  unfinished: async (): Promise<CompletionRecord[]> =>
    (await Array.fromAsync(recordsIn(records, unfinished))).filter(isUnfinished),

  expire: records.expire,
});

export type CompletionStore = ReturnType<typeof createCompletionStore>;

/** The records of an index, newest first. An entry counts when it is that of its record. */
const recordsIn = async function* (records: Records<CompletionRecord>, index: string) {
  let before: Position | null = null;
  do {
    const page: Position[] = await records.list(index, { newest: true, limit: pageSize, before });
    const found = await Promise.all(page.map(({ id }) => records.get(id)));
    for (const [place, record] of found.entries())
      if (record !== null && Date.parse(record.created_at) === page[place]?.at) yield record;
    before = page.length < pageSize ? null : (page.at(-1) ?? null);
  } while (before !== null);
};
