/** What the model answers to one request: data, turned into bytes by `stream.ts` or `whole.ts`. */
export type Answer = MessageAnswer | ErrorAnswer | { kind: "silence" };

export type Block =
  | { type: "thinking"; thinking: string }
  | { type: "text"; text: string }
  | { type: "tool_use"; name: string; input: Record<string, unknown> };

export type MessageAnswer = {
  kind: "message";
  blocks: Block[];
  /** Default: `tool_use` when the last block is one, else `end_turn`. */
  stopReason?: "end_turn" | "tool_use" | "max_tokens" | "refusal";
  /** Deltas a second; default: as fast as the reader takes them. */
  rate?: number;
  /** Characters a delta. */
  deltaLength?: number;
  /** The stream stops after so many deltas: cut off, or open for ever with nothing more. A whole answer is not touched. */
  interrupted?: { afterDeltas: number; by: "cut" | "stall" };
};

export type ErrorAnswer = {
  kind: "error";
  status: number;
  message: string;
  headers?: Record<string, string>;
};

export const message = (
  blocks: Block[],
  options: Partial<Omit<MessageAnswer, "kind" | "blocks">> = {},
): MessageAnswer => ({
  kind: "message",
  blocks,
  ...options,
});

export const text = (content: string): Block => ({ type: "text", text: content });
export const thinking = (content: string): Block => ({ type: "thinking", thinking: content });
export const toolUse = (name: string, input: Record<string, unknown>): Block => ({
  type: "tool_use",
  name,
  input,
});

export const stopReasonOf = ({ stopReason, blocks }: MessageAnswer): string =>
  stopReason ?? (blocks.at(-1)?.type === "tool_use" ? "tool_use" : "end_turn");

/** What a block carries as text, thus what is cut into deltas. */
export const contentOf = (block: Block): string => {
  if (block.type === "text") return block.text;
  return block.type === "thinking" ? block.thinking : JSON.stringify(block.input);
};

const errorTypes: Record<number, string> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  529: "overloaded_error",
};

export const errorBody = ({ status, message: words }: ErrorAnswer, requestId: string) => ({
  type: "error",
  error: { type: errorTypes[status] ?? "api_error", message: words },
  request_id: requestId,
});
