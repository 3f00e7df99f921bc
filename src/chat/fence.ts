import type { Delta } from "./delta.ts";

/**
 * What a delta adds to the content of the answer; nothing for thinking, which is no content. Tools are fenced blocks of
 * markdown, whose info string tells what they are: `tool_use:NAME`, `tool_result`, `tool_result:error`.
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

/** Length of the longest run of backticks that a reader of CommonMark could take for the end of the block; 0: none. */
const longestFence = (body: string): number => {
  if (!body.includes("```")) return 0;
  let longest = 0;
  for (const [, run = ""] of body.matchAll(/(?:^|[\n\r]) {0,3}(`{3,})/g))
    longest = Math.max(longest, run.length);
  return longest;
};

/** Names come from MCP servers too: what would end the line or the info string becomes `_`. */
const infoString = (name: string): string => name.replace(/[\s`\p{C}]/gu, "_");
