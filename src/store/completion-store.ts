import { z } from "zod";
import {
  Completion,
  completionIdForm,
  isCompletionFinal,
  type CompletionStatus,
} from "../contract/completion.ts";
import { parseWith, type Index, type Kind, type Records } from "./records.ts";

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

const indexOf = (name: "all" | "unfinished" | CompletionStatus): Index => ({
  name: `completions:${name}`,
  order: "time",
});

const [all, unfinished] = [indexOf("all"), indexOf("unfinished")];

/** Queued and running completions share an index. */
const listOf = (status: CompletionStatus | "all"): Index =>
  status === "queued" || status === "running" ? unfinished : indexOf(status);

/** A file each; or a hash `{prefix}:completion:{uuid}` and indexes in other slots of the key-value store. */
export const completionKind = (ttlSeconds: number): Kind<CompletionRecord> => ({
  noun: "completion",
  isId: (uuid) => completionIdForm.test(uuid),
  parse: parseWith(
    (value) => CompletionRecord.parse(value),
    (record, uuid) => record.uuid === uuid,
  ),
  entries: ({ created_at, status }) =>
    [all, listOf(status)].map((index) => ({ index, at: Date.parse(created_at) })),
  expires: ({ ended_at }) => (ended_at === null ? null : Date.parse(ended_at) + ttlSeconds * 1000),
  files: { inMemory: isUnfinished },
  redis: {
    layout: "hash",
    version: "write",
    key: (uuid) => ["completion", uuid],
    oneSlot: false,
    seconds: (record) => (isUnfinished(record) ? 0 : Math.max(1, Math.ceil(ttlSeconds))),
    swept: {
      indexes: [all, unfinished, ...(["completed", "failed", "cancelled"] as const).map(indexOf)],
      seconds: ttlSeconds,
    },
  },
});

/** The completion as the doors send it. */
export const toCompletion = ({ pod_name: _p, epoch: _e, ...completion }: CompletionRecord): Completion =>
  completion;

/**
 * Completions by the caller's uuid (`completionIdForm`). A final record expires `ttlSeconds` after its end; the answer for
 * an unknown or malformed id is null or false. Every function rejects with `ServiceError("store_unavailable")`.
 */
export type CompletionStore = {
  /** Writes a new record, also over a final one. False: a queued or running one has the id, and stays. */
  create: (record: CompletionRecord) => Promise<boolean>;
  /**
   * Applies `changes` while the record belongs to that start of an instance and is not final, so that a final state is
   * written once; but the answer of one that was called lost is true. False: nothing was written.
   */
  update: (uuid: string, epoch: string, changes: Partial<CompletionRecord>) => Promise<boolean>;
  get: (uuid: string) => Promise<CompletionRecord | null>;
  /** Newest first by `created_at`, then uuid. */
  list: (query: { limit: number; status: CompletionStatus | "all" }) => Promise<CompletionRecord[]>;
  /** All that are queued or running. */
  unfinished: () => Promise<CompletionRecord[]>;
  /** Deletes expired records, where the store does not do that itself. */
  expire: (now: Date) => Promise<void>;
};

/** How many records are read at once. */
const pageSize = 50;

export const createCompletionStore = (records: Records<CompletionRecord>): CompletionStore => ({
  create: async (record) => {
    if (!completionIdForm.test(record.uuid))
      throw new Error("the id of a completion is letters, digits and -_.:");
    const { changed } = await records.change(record.uuid, (current) =>
      current !== null && isUnfinished(current) ? undefined : record,
    );
    return changed;
  },

  update: async (uuid, epoch, changes) => {
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

  list: async ({ limit, status }) => {
    const found = new Map<string, CompletionRecord>();
    for (let skip = 0; ; skip += pageSize) {
      const page = await records.newest(listOf(status), { limit: pageSize, skip });
      for (const record of await Promise.all(page.map(({ id }) => records.get(id)))) {
        if (record === null || (status !== "all" && record.status !== status)) continue;
        found.set(record.uuid, record);
        if (found.size === limit) return [...found.values()];
      }
      if (page.length < pageSize) return [...found.values()];
    }
  },

  unfinished: async () => {
    const ids = await records.oldest(unfinished);
    const found: CompletionRecord[] = [];
    while (ids.length > 0) {
      for (const record of await Promise.all(ids.splice(0, pageSize).map(records.get)))
        if (record !== null && isUnfinished(record)) found.push(record);
    }
    return found;
  },

  expire: records.expire,
});
