import type { Visibility } from "../contract/visibility.ts";

/** One visible step of a turn, in order. Every piece of content is in exactly one of them. */
export type Delta =
  /** A piece of thinking, as the model produces it. */
  | { kind: "thinking"; text: string }
  /** A piece of text, as the model produces it (live text only; then there is neither narration nor final). */
  | { kind: "text"; text: string }
  /** A whole text block with more of the turn after it. */
  | { kind: "narration"; text: string }
  /** The whole last text block of the turn. */
  | { kind: "final"; text: string }
  | { kind: "tool_use"; id: string; name: string; input: unknown }
  | { kind: "tool_result"; id: string; content: string; isError: boolean };

/**
 * What a delta adds to the content of the answer; nothing for thinking. Tools are fenced markdown blocks whose info
 * string is `tool_use:NAME`, `tool_result` or `tool_result:error`.
 */
export const contentOf = (delta: Delta): string => {
  switch (delta.kind) {
    case "thinking":
      return "";
    case "text":
    case "narration":
    case "final":
      return delta.text;
    case "tool_use":
      return `\n\n${fenced(`tool_use:${infoString(delta.name)}`, JSON.stringify(delta.input, null, 2) ?? "null")}`;
    case "tool_result":
      return `\n${fenced(delta.isError ? "tool_result:error" : "tool_result", delta.content)}`;
  }
};

const fenced = (info: string, body: string): string => {
  const fence = "`".repeat(Math.max(3, longestFence(body) + 1));
  return `${fence}${info}\n${body}${body === "" || body.endsWith("\n") ? "" : "\n"}${fence}\n`;
};

/** Length of the longest run of backticks that CommonMark could take for the end of the block; 0: none. */
const longestFence = (body: string): number => {
  if (!body.includes("```")) return 0;
  let longest = 0;
  for (const [, run = ""] of body.matchAll(/(?:^|[\n\r]) {0,3}(`{3,})/g))
    longest = Math.max(longest, run.length);
  return longest;
};

/** Names come from MCP servers too: characters that would end the line or the info string become `_`. */
const infoString = (name: string): string => name.replace(/[\s`\p{C}]/gu, "_");

export const shows = (visibility: Visibility, delta: Pick<Delta, "kind">): boolean => {
  const { show_thinking, show_tools, show_text, show_narration, show_final } = visibility;
  switch (delta.kind) {
    case "thinking":
      return show_thinking;
    case "tool_use":
    case "tool_result":
      return show_tools;
    case "narration":
      return show_text && show_narration;
    case "final":
      return show_text && show_final;
    // Its role is unknown yet: it may become either.
    case "text":
      return show_text && show_narration && show_final;
  }
};

/**
 * Whether text is sent as the model produces it. Only when narration and final answer are both shown: otherwise a
 * block's role must be known first, or hidden text would leak.
 */
export const isLive = (visibility: Visibility, wanted: boolean): boolean =>
  wanted && shows(visibility, { kind: "text" });

/** The reply to `/stream-status`: a JSON object with the five booleans. */
export const statusText = (visibility: Visibility): string => JSON.stringify(visibility);

/** The same before the answer to a message that asks for it beside other words; empty: it does not ask. */
export const statusBefore = (visibility: Visibility, tokens: readonly string[]): string =>
  tokens.includes("/stream-status") ? `${statusText(visibility)}\n\n` : "";
