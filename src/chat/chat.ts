import type { TurnPart } from "../agents/agent.ts";
import type { Visibility } from "../contract/visibility.ts";

/** PORT. What the chat doors call. Every function rejects with `ServiceError` for what the caller may know. */
export type Chat = {
  /** Values of `model`: the loaded agent first, then its tiers and aliases. */
  models: () => Promise<string[]>;
  /**
   * Begins a turn, or joins the turn that this request retries. Refuses here all that can be refused with a status,
   * such as an unknown model or too many turns. The turn reports a conversation that stays busy.
   */
  begin: (request: ChatRequest, caller: Caller) => Promise<ChatTurn>;
  /** An answer without the agent. */
  answer: (request: Pick<ChatRequest, "model" | "includeUsage">, text: string) => ChatTurn;
  /** What the loaded agent shows to all its callers. */
  visibility: () => Promise<Visibility>;
  /** Changes what is given, and resolves to the whole. */
  setVisibility: (changes: { [Flag in keyof Visibility]?: boolean | undefined }) => Promise<Visibility>;
  /** Stops a turn of this instance, by the id in its chunks. False: this caller has none in flight by that id. */
  cancel: (id: string, principal: string) => boolean;
};

export type Caller = { principal: string; requestId: string };

/** A validated chat completions request. */
export type ChatRequest = {
  model: string;
  stream: boolean;
  /** `stream_options.include_usage`. */
  includeUsage: boolean;
  /** Texts of system and developer messages, in order. */
  system: readonly string[];
  /** The other messages. The last one is the user's. */
  messages: readonly ChatMessage[];
  /** Seconds; null: the configured limit. */
  timeoutSeconds: number | null;
  effort: "low" | "medium" | "high" | null;
  disabledMcpServers: readonly string[];
  /** Null: as configured. */
  liveText: boolean | null;
  /** The id from the caller; null: none. */
  conversation: { id: string; source: "header" | "metadata" } | null;
  /** X-User-Id: separates conversations of different users. */
  user: string | null;
  /** X-Request-Id from the caller, and whether its client library marks this as a retry. */
  retry: { requestId: string | null; isRetry: boolean };
  /** Digest of the body, equal for a retry. */
  digest: string;
};

/** Consecutive messages may have the same role. */
export type ChatMessage = { role: "user" | "assistant"; content: readonly TurnPart[] };

/** A turn in flight or ended. It runs while somebody reads it; after that the disconnect policy decides. */
export type ChatTurn = {
  /** `chatcmpl-…`. */
  id: string;
  /** How the conversation was found, for the header `X-Service-Conversation-Source`; null: no conversation. */
  conversation: { source: "header" | "metadata" | "hash" | "new"; id: string | null } | null;
  /**
   * Server-sent events from the first one on, in UTF-8: each piece is one or more whole events; the last is `data:
   * [DONE]`. Reports a failure in the stream instead of rejecting. Only for requests with `stream`.
   */
  stream: (signal: AbortSignal) => AsyncGenerator<Uint8Array, void, void>;
  /** The `chat.completion` object as JSON text. Rejects with `ServiceError`. Only for requests without `stream`. */
  whole: (signal: AbortSignal) => Promise<string>;
};
