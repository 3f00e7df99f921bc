import { z } from "zod";
import { parseWith, type Index, type Kind, type Records } from "./records.ts";

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

/** What nobody collects, since agent mode is off or the service is gone, goes by itself this much later, s. */
const uncollected = 30 * 86_400;

const byLapse: Index = { name: "conversations", order: "time" };

/** `{prefix}:conv:{key}` in the key-value store, and `{prefix}:conversations`, which tells when each lapses; or a file each. */
export const conversationKind = (ttlSeconds: number): Kind<ConversationRecord> => {
  const lapseOf = ({ updated_at }: ConversationRecord): number => Date.parse(updated_at) + ttlSeconds * 1000;
  const seconds = ttlSeconds + uncollected;
  return {
    noun: "conversation",
    isId: isConversationKey,
    parse: parseWith((value) => ConversationRecord.parse(value)),
    entries: (record) => [{ index: byLapse, at: lapseOf(record) }],
    expires: lapseOf,
    files: {},
    redis: {
      layout: "string",
      key: (key) => ["conv", key],
      oneSlot: false,
      seconds: () => seconds,
      lists: [byLapse],
      expiry: { index: byLapse, seconds },
    },
  };
};

/**
 * Conversations by a key that is 64 hex digits. Records whose `updated_at` is further back than the conversations' time to
 * live are gone. Every function rejects with `ServiceError("store_unavailable")` when the store cannot be asked; a record that
 * cannot be read counts as missing.
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

export const createConversationStore = (records: Records<ConversationRecord>): ConversationStore => ({
  get: records.get,
  put: async (key, record) => {
    if (!isConversationKey(key)) throw new Error("the key of a conversation is 64 hex digits");
    await records.change(key, () => record);
  },
  remove: async (key) => void (await records.change(key, () => null)),
  lapsed: records.expire,
});
