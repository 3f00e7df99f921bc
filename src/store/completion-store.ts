import { z } from "zod";
import {
  Completion,
  completionIdForm,
  isCompletionFinal,
  type CompletionStatus,
} from "../contract/completion.ts";

/** A completion with what only the service needs. */
export const CompletionRecord = z.object({
  ...Completion.shape,
  /** The instance that runs it, and that start of it. */
  pod_name: z.string(),
  epoch: z.string(),
  // Lists are sorted and swept by these.
  created_at: z.iso.datetime(),
  ended_at: z.iso.datetime().nullable(),
});
export type CompletionRecord = z.infer<typeof CompletionRecord>;

export const isCompletionId = (uuid: string): boolean => completionIdForm.test(uuid);

/** The stored text as the record of `uuid`; null: it holds none of this version. */
export const parseCompletion = (text: string, uuid: string): CompletionRecord | null => {
  try {
    const record = CompletionRecord.parse(JSON.parse(text));
    return record.uuid === uuid ? record : null;
  } catch {
    return null;
  }
};

export const isUnfinished = (record: Pick<CompletionRecord, "status">): boolean =>
  !isCompletionFinal(record.status);

/** The completion as the doors send it. */
export const toCompletion = ({ pod_name: _p, epoch: _e, ...completion }: CompletionRecord): Completion =>
  completion;

/**
 * PORT. Completions by the caller's uuid (`completionIdForm`): `{prefix}:completion:{uuid}` in the key-value store, or a file
 * each. A final record goes `ttlSeconds` after its end; unknown and malformed ids are null or false. Every function rejects with `ServiceError("store_unavailable")`.
 */
export type CompletionStore = {
  /** Writes a new record over a final one, or where there is none. False: one is queued or running, and stays. */
  create: (record: CompletionRecord) => Promise<boolean>;
  /**
   * Writes `changes` over the record while it is of that start of an instance and not final. False: it is not, nothing was
   * written. (A final state is written once.)
   */
  update: (uuid: string, epoch: string, changes: Partial<CompletionRecord>) => Promise<boolean>;
  get: (uuid: string) => Promise<CompletionRecord | null>;
  /** Newest first by `created_at`, then uuid. */
  list: (query: { limit: number; status: CompletionStatus | "all" }) => Promise<CompletionRecord[]>;
  /** All that are queued or running. */
  unfinished: () => Promise<CompletionRecord[]>;
  /** Deletes what has lapsed, where the store does not do that itself. */
  tidy: (now: Date) => Promise<void>;
};
