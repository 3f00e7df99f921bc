import { expect, test } from "vitest";
import { everythingVisible } from "../contract/visibility.ts";
import { type Delta, isLive, shows, statusText } from "./delta.ts";

const kinds: Delta["kind"][] = ["thinking", "text", "narration", "final", "tool_use", "tool_result"];
const shown = (changes: Partial<typeof everythingVisible>): string[] =>
  kinds.filter((kind) => shows({ ...everythingVisible, ...changes }, { kind }));

test("each flag hides its kinds, and text without a role is shown only where both roles are", () => {
  expect(shown({})).toEqual(kinds);
  expect(shown({ show_thinking: false })).toEqual(["text", "narration", "final", "tool_use", "tool_result"]);
  expect(shown({ show_tools: false })).toEqual(["thinking", "text", "narration", "final"]);
  expect(shown({ show_text: false })).toEqual(["thinking", "tool_use", "tool_result"]);
  expect(shown({ show_narration: false })).toEqual(["thinking", "final", "tool_use", "tool_result"]);
  expect(shown({ show_final: false })).toEqual(["thinking", "narration", "tool_use", "tool_result"]);
});

test("text is live only when it is wanted and nothing of it is hidden", () => {
  expect(isLive(everythingVisible, true)).toBe(true);
  expect(isLive(everythingVisible, false)).toBe(false);
  expect(isLive({ ...everythingVisible, show_narration: false }, true)).toBe(false);
  expect(isLive({ ...everythingVisible, show_final: false }, true)).toBe(false);
  expect(isLive({ ...everythingVisible, show_text: false }, true)).toBe(false);
});

test("the status is a JSON object with the five flags", () => {
  expect(JSON.parse(statusText({ ...everythingVisible, show_tools: false }))).toEqual({
    show_thinking: true,
    show_tools: false,
    show_text: true,
    show_narration: true,
    show_final: true,
  });
});
