import type { TurnPart } from "../agents/agent.ts";

/** What the chat doors ask. Every function rejects with `ServiceError` for what the caller can be told. */
export type Chat = {
  /** Ids that `model` may be: the loaded agent first, then its tiers and aliases. */
  models: () => Promise<string[]>;
  /**
   * Begins a turn, or joins the one that this request is a retry of. Everything that can be refused with a status is
   * refused here: unknown model, no room, a conversation that stays busy is told by the turn.
   */
  begin: (request: ChatRequest, caller: Caller) => Promise<ChatTurn>;
  /** An answer that needs no agent. */
  answer: (request: Pick<ChatRequest, "model" | "includeUsage">, text: string) => ChatTurn;
  /** Stops a turn of this instance, by the id in its chunks. False: there is none under way of this caller. */
  cancel: (id: string, principal: string) => boolean;
};

export type Caller = { principal: string; requestId: string };

/** A chat completions request, checked. */
export type ChatRequest = {
  model: string;
  stream: boolean;
  /** `stream_options.include_usage`. */
  includeUsage: boolean;
  /** Texts of system and developer messages, in their order. */
  system: readonly string[];
  /** The other messages. The last one is the user's. */
  messages: readonly ChatMessage[];
  /** Seconds; null: the configured limit. */
  timeoutSeconds: number | null;
  effort: "low" | "medium" | "high" | null;
  disabledMcpServers: readonly string[];
  /** Null: as configured. */
  liveText: boolean | null;
  /** As the caller names it; null: it does not. */
  conversation: { id: string; source: "header" | "metadata" } | null;
  /** X-User-Id: part of what keeps conversations apart. */
  user: string | null;
  /** X-Request-Id as the caller gave it, and whether its client library says that this is a retry. */
  retry: { requestId: string | null; isRetry: boolean };
  /** Digest of the body: a retry has the same. */
  digest: string;
};

/** Consecutive messages of one role may follow each other. */
export type ChatMessage = { role: "user" | "assistant"; content: readonly TurnPart[] };

/** A turn under way, or one that has ended. It goes on while somebody reads it; else the disconnect policy decides. */
export type ChatTurn = {
  /** `chatcmpl-…`. */
  id: string;
  /** How the conversation was found, for the header `X-Service-Conversation-Source`; null: no conversation. */
  conversation: { source: "header" | "metadata" | "hash" | "new"; id: string | null } | null;
  /**
   * Server-sent events from the first one on, in UTF-8: each piece is one or more whole events, to be written as it is;
   * the last is `data: [DONE]`. A failure is told in the stream: this does not reject. Only of a request with `stream`.
   */
  stream: (signal: AbortSignal) => AsyncGenerator<Uint8Array, void, void>;
  /** The `chat.completion` object as JSON text. Rejects with `ServiceError`. Only of a request without `stream`. */
  whole: (signal: AbortSignal) => Promise<string>;
};
