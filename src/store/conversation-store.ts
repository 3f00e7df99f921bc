import { z } from "zod";
import { parseWith, type Kind, type Records } from "./records.ts";

const Instant = z.iso.datetime();

/** A conversation: the session of the agent that it is, and the answers that session gave. */
export const ConversationRecord = z.object({
  session_id: z.string(),
  /** Working directory of the session; it is made again when it is missing. */
  cwd: z.string(),
  /** Digests of the answers in order; `*` stands for one that the caller may have received only in part. */
  answers: z.array(z.string()),
  /** How often its agent was refused something by its sandbox. */
  denied: z.int(),
  created_at: Instant,
  updated_at: Instant,
});
export type ConversationRecord = z.infer<typeof ConversationRecord>;

/** A digest of agent, caller and conversation id. */
const isConversationKey = (key: string): boolean => /^[0-9a-f]{64}$/.test(key);

/** A file each; or `{prefix}:conv:{key}` in the key-value store, where it expires by itself. */
export const conversationKind = (ttlSeconds: number): Kind<ConversationRecord> => ({
  noun: "conversation",
  key: "conv",
  isId: isConversationKey,
  parse: parseWith(ConversationRecord),
  expires: ({ updated_at }) => Date.parse(updated_at) + ttlSeconds * 1000,
  literal: { seconds: () => ttlSeconds },
});

/**
 * Conversations by a key of 64 hex digits. Records expire by their `updated_at`. Every function rejects with
 * `ServiceError("store_unavailable")` when the store cannot be reached; an unreadable record counts as missing.
 */
export const createConversationStore = (records: Records<ConversationRecord>) => ({
  get: records.get,
  put: async (key: string, record: ConversationRecord): Promise<void> => {
    if (!isConversationKey(key)) throw new Error("the key of a conversation is 64 hex digits");
    await records.change(key, () => record);
  },
  remove: async (key: string): Promise<void> => void (await records.change(key, () => null)),
  expire: records.expire,
});

export type ConversationStore = ReturnType<typeof createConversationStore>;
