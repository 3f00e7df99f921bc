import { unfenced, type ChatChunk } from "../../../src/client/chat.ts";
import type { Visibility } from "../../../src/contract/visibility.ts";
import type { Call } from "../conversation/entry.ts";

/** A piece of an answer. A tool has no result while it runs. */
export type Block = { type: "thinking" | "text"; text: string } | (Call & { id: string });

/** Adds what a chunk brings. Blocks that it changes are replaced, so that the others need not be shown again. */
export const take = (blocks: Block[], { choices }: ChatChunk): void => {
  for (const { delta, ...tags } of choices) {
    const { reasoning_content: thinking, content } = delta;
    if (thinking) append(blocks, "thinking", thinking);
    if (!content) continue;
    const { x_service_event_type: type, x_service_tool_use_id: id = "", x_service_tool_name: name } = tags;
    if (type === "tool_use") blocks.push({ ...toolOf(id, name), input: unfenced(content) });
    else if (type === "tool_result")
      giveResult(blocks, id, { text: unfenced(content), isError: tags.x_service_is_error === true });
    else if (type === undefined) append(blocks, "text", content);
    else {
      const isSetting = type === "stream_config";
      blocks.push({ type: "text", text: isSetting ? inWords(JSON.parse(content) as Visibility) : content });
    }
  }
};

const append = (blocks: Block[], type: "thinking" | "text", text: string): void => {
  const last = blocks.at(-1);
  if (last?.type === type) blocks[blocks.length - 1] = { type, text: last.text + text };
  else blocks.push({ type, text });
};

const toolOf = (id: string, name = "tool"): Block & Call => ({
  type: "tool",
  id,
  name,
  input: "",
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

export const kinds = ["thinking", "tools", "narration", "final"] as const;
export type Kind = (typeof kinds)[number];

const isText = (kind: Kind): boolean => kind === "narration" || kind === "final";

/** Whether the agent shows this kind. Text may be off as a whole. */
export const isShown = (now: Visibility, kind: Kind): boolean =>
  now[`show_${kind}`] && (now.show_text || !isText(kind));

/** What shows or hides one kind, and leaves the others as they are. */
export const changeOf = (now: Visibility, kind: Kind, shown: boolean): Partial<Visibility> => ({
  // Of text that is off as a whole only what is wanted comes back.
  ...(isText(kind) && !now.show_text && { show_text: true, show_narration: false, show_final: false }),
  [`show_${kind}`]: shown,
});

const inWords = (now: Visibility): string => {
  const list = (shown: boolean): string =>
    kinds.filter((kind) => isShown(now, kind) === shown).join(", ") || "nothing";
  return `The agent shows: ${list(true)}. It hides: ${list(false)}.`;
};
