import { createDecoder } from "./decode.ts";

/**
 * Reads a line of each kind once: the first one costs milliseconds, since schemas are compiled when they are first used, and
 * that should not be in somebody's first answer.
 */
export const warmUp = (): void => {
  const { decode } = createDecoder();
  for (const line of lines) decode(JSON.stringify(line));
};

const delta = { type: "text_delta", text: "x" };

const lines = [
  { type: "system", subtype: "init", session_id: "" },
  { type: "stream_event", event: { type: "content_block_delta", index: 0, delta } },
  { type: "assistant", message: { content: [{ type: "tool_use", id: "", name: "", input: {} }] } },
  { type: "user", message: { content: [{ type: "tool_result", tool_use_id: "", content: "" }] } },
  { type: "result", subtype: "success" },
];
