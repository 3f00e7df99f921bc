import { z } from "zod";
import { parseWith, type Kind, type Records } from "./records.ts";

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

/** A digest of agent, caller and conversation id. */
const isConversationKey = (key: string): boolean => /^[0-9a-f]{64}$/.test(key);

/** `{prefix}:conv:{key}` in the key-value store, which lets it lapse by itself; or a file each. */
export const conversationKind = (ttlSeconds: number): Kind<ConversationRecord> => ({
  noun: "conversation",
  isId: isConversationKey,
  parse: parseWith((value) => ConversationRecord.parse(value)),
  entries: () => [],
  expires: ({ updated_at }) => Date.parse(updated_at) + ttlSeconds * 1000,
  files: {},
  redis: { layout: "string", key: (key) => ["conv", key], oneSlot: false, seconds: () => ttlSeconds },
});

/**
 * Conversations by a key that is 64 hex digits. Records whose `updated_at` is further back than the conversations' time to
 * live are gone. Every function rejects with `ServiceError("store_unavailable")` when the store cannot be asked; a record that
 * cannot be read counts as missing.
 */
export type ConversationStore = {
  get: (key: string) => Promise<ConversationRecord | null>;
  put: (key: string, record: ConversationRecord) => Promise<void>;
  remove: (key: string) => Promise<void>;
  /** Deletes what has lapsed, where the store does not do that itself. */
  tidy: (now: Date) => Promise<void>;
};

export const createConversationStore = (records: Records<ConversationRecord>): ConversationStore => ({
  get: records.get,
  put: async (key, record) => {
    if (!isConversationKey(key)) throw new Error("the key of a conversation is 64 hex digits");
    await records.change(key, () => record);
  },
  remove: async (key) => void (await records.change(key, () => null)),
  tidy: records.expire,
});
