import { z } from "zod";

const Instant = z.iso.datetime();

/** What is kept of a conversation: which session of the agent it is, and which answers that session gave. */
export const ConversationRecord = z.object({
  session_id: z.string(),
  /** Working directory of the session; it is made again when it is gone. */
  cwd: z.string(),
  /**
   * Digests of the answers given, in their order; `*` stands for one that the caller may have got in part only.
   */
  answers: z.array(z.string()),
  created_at: Instant,
  updated_at: Instant,
});
export type ConversationRecord = z.infer<typeof ConversationRecord>;

/** A digest of agent, caller and conversation id. Every other key is unknown: it never becomes a path. */
export const isConversationKey = (key: string): boolean => /^[0-9a-f]{64}$/.test(key);

/** The stored text as a record; null: it holds none of this version. */
export const parseConversation = (text: string): ConversationRecord | null => {
  try {
    return ConversationRecord.parse(JSON.parse(text));
  } catch {
    return null;
  }
};

/** When a record lapses, ms since the epoch. */
export const lapseOf = (record: ConversationRecord, ttlSeconds: number): number =>
  Date.parse(record.updated_at) + ttlSeconds * 1000;

/**
 * PORT. Conversations by a key that is 64 hex digits. Records whose `updated_at` is further back than the conversations'
 * time to live are gone. Every function rejects with `ServiceError("store_unavailable")` when the store cannot be asked;
 * a record that cannot be read counts as missing.
 */
export type ConversationStore = {
  get: (key: string) => Promise<ConversationRecord | null>;
  put: (key: string, record: ConversationRecord) => Promise<void>;
  remove: (key: string) => Promise<void>;
  /**
   * The conversations that have lapsed since it was last asked, for the removal of their working directories; may be empty.
   * Of several instances that ask, one is told of each. Many are told in several answers.
   */
  lapsed: (now: Date) => Promise<ConversationRecord[]>;
};
