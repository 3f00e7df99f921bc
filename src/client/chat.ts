import { brokenOff, ClientError, notTheService, parsedJson, publicFailureIn } from "./client-error.ts";
import { messages, type Transport } from "./transport.ts";

/** The kind of a chunk, beyond the public format; a chunk without one is the role, live text, or the end. */
export type ChatEventType = "thinking" | "tool_use" | "tool_result" | "narration" | "final" | "stream_config";

/** A piece of an answer, in the public format of chat completions with the service's own fields. */
export type ChatChunk = {
  /** Id of the turn, the same in all of its chunks. */
  id: string;
  object: "chat.completion.chunk";
  /** Seconds since the epoch. */
  created: number;
  model: string;
  /** One; none in the chunk that has only `usage`. */
  choices: {
    index: number;
    delta: { role?: "assistant"; content?: string | null; reasoning_content?: string | null };
    finish_reason: string | null;
    x_service_event_type?: ChatEventType;
    x_service_tool_name?: string;
    x_service_tool_use_id?: string;
    x_service_is_error?: boolean;
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number } | null;
};

/** Body of a chat completions request; the client sets `stream`. */
type ChatBody = {
  model: string;
  messages: readonly { role: "system" | "developer" | "user" | "assistant"; content: string | object[] }[];
  /** Seconds. */
  timeout?: number;
  disable_mcp_servers?: readonly string[];
  /** `conversation_id`, and `live_text: "true"` for text while the model writes it. */
  metadata?: Record<string, string>;
  stream_options?: { include_usage: boolean };
};

type ChatAsk = {
  body: ChatBody;
  /** `X-Conversation-Id`, `X-User-Id`, `X-Request-Id`. */
  headers?: Record<string, string>;
  /** Closes the connection; the service's disconnect policy decides about the turn. */
  signal?: AbortSignal | undefined;
};

type ChatModel = { id: string };

type Call = { signal?: AbortSignal | undefined };

export type ChatMethods = {
  /**
   * The chunks of an answer, live. Ends only when the answer is complete: a refusal, a failure within the stream
   * (`status` 200, its `code` from there) and a broken connection (`no_answer`) reject with a `ClientError`.
   */
  chat: (ask: ChatAsk) => AsyncGenerator<ChatChunk, void, void>;
  /** Valid values of `model`, the loaded agent first. */
  chatModels: (call?: Call) => Promise<ChatModel[]>;
  /** Stops the turn with this id, which is in its chunks. Rejects when there is none in flight. */
  cancelChat: (id: string, call?: Call) => Promise<void>;
};

export const chatMethods = (transport: Transport): ChatMethods => ({
  chat: (ask) => chat(transport, ask),
  chatModels: async ({ signal } = {}) => {
    const list = await transport.json({ method: "GET", target: "/v1/models", signal });
    return (list as { data: ChatModel[] }).data;
  },
  cancelChat: async (id, { signal } = {}) => {
    const target = `/v1/chat/completions/${encodeURIComponent(id)}/cancel`;
    const headers = { "content-type": "application/json" };
    await transport.json({ method: "POST", target, headers, body: "{}", signal });
  },
});

async function* chat(
  transport: Transport,
  { body, headers, signal }: ChatAsk,
): AsyncGenerator<ChatChunk, void, void> {
  let base = "";
  const connection = {
    method: "POST",
    target: "/v1/chat/completions",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true }),
    signal,
    onOpen: (response: Response): void => {
      base = new URL(response.url).origin;
      const type = response.headers.get("content-type") ?? "";
      if (!type.startsWith("text/event-stream")) throw notTheService(response, base);
    },
  };
  try {
    for await (const { data } of messages(transport, connection)) {
      if (data === "[DONE]") return;
      yield chunkOf(data, base);
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw error instanceof ClientError ? error : brokenOff(error, base);
  }
  throw brokenOff(undefined, base);
}

const chunkOf = (data: string, base: string): ChatChunk => {
  const value = parsedJson(data);
  const failure = publicFailureIn(value);
  if (failure !== null) throw new ClientError(failure.error, { status: 200, code: failure.code });
  if (isChunk(value)) return value;
  throw new ClientError(
    `${base} sent what is no piece of an answer: ${data.slice(0, 100)}; check SERVICE_HOST, SERVICE_PORT and any proxy between`,
    { status: 200, code: "not_the_service" },
  );
};

const isChunk = (value: unknown): value is ChatChunk =>
  typeof value === "object" && value !== null && "choices" in value && Array.isArray(value.choices);

/**
 * The content of a tool call or result: the text in its fence, or the whole text without one. The fence is longer than
 * usual when the content has fences itself.
 */
export const unfenced = (content: string): string => {
  const text = content.replace(/^\n+/, "");
  const fence = /^(`{3,}|~{3,})[^\n]*\n/.exec(text);
  if (fence === null) return text;
  const body = text.slice(fence[0].length).trimEnd();
  return body.endsWith(fence[1] ?? "") ? body.slice(0, -(fence[1] ?? "").length).replace(/\n$/, "") : body;
};
