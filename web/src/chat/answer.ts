import { unfenced, type ChatChunk } from "../../../src/client/chat.ts";
import type { Call } from "../conversation/entry.ts";
import { inWords, readVisibility } from "./visibility.ts";

/** A piece of an answer. A tool has no result while it runs. */
export type Block = { type: "thinking" | "text"; text: string } | (Call & { id: string });

/** Adds what a chunk brings. Blocks that it changes are replaced, so that the others need not be shown again. */
export const take = (blocks: Block[], { choices }: ChatChunk): void => {
  for (const { delta, ...tags } of choices) {
    const { reasoning_content: thinking, content } = delta;
    if (thinking) append(blocks, "thinking", thinking);
    if (!content) continue;
    const id = tags.x_service_tool_use_id ?? "";
    const type = tags.x_service_event_type;
    if (type === "tool_use") blocks.push(toolOf(id, tags.x_service_tool_name, unfenced(content)));
    else if (type === "tool_result")
      giveResult(blocks, id, { text: unfenced(content), isError: tags.x_service_is_error === true });
    else if (type === "stream_config") blocks.push({ type: "text", text: inWords(readVisibility(content)) });
    else if (type === undefined) append(blocks, "text", content);
    else blocks.push({ type: "text", text: content });
  }
};

const append = (blocks: Block[], type: "thinking" | "text", text: string): void => {
  const last = blocks.at(-1);
  if (last?.type === type) blocks[blocks.length - 1] = { type, text: last.text + text };
  else blocks.push({ type, text });
};

const toolOf = (id: string, name = "tool", input = ""): Block & Call => ({
  type: "tool",
  id,
  name,
  input,
  result: null,
  isOpen: false,
});

const giveResult = (blocks: Block[], id: string, result: Call["result"]): void => {
  const at = blocks.findLastIndex((block) => block.type === "tool" && block.id === id);
  const block = blocks[at];
  if (block?.type === "tool") blocks[at] = { ...block, result };
  else blocks.push({ ...toolOf(id), result });
};

/** What the agent said, for those who cannot see how. */
export const textOf = (blocks: readonly Block[]): string =>
  blocks.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n\n");
