import { expect, test } from "vitest";
import { turnInput, type TurnInput } from "./arguments.ts";

const say = (more: Partial<TurnInput["turn"]>, setup: Partial<TurnInput> = {}) => {
  const input = turnInput({
    turn: { content: [{ type: "text", text: "Hi." }], appendSystemPrompt: null, effort: null, ...more },
    first: true,
    appended: null,
    effort: null,
    ...setup,
  });
  const lines = input.split("\n").filter((line) => line !== "");
  return {
    asked: lines.slice(0, -1).map((line) => (JSON.parse(line) as { request: unknown }).request),
    last: JSON.parse(lines.at(-1)!) as unknown,
  };
};

test("a turn that asks for nothing, or for what is so already, is the user's line alone", () => {
  const { asked, last } = say({});
  expect(asked).toEqual([]);
  expect(last).toMatchObject({ type: "user", message: { content: [{ type: "text", text: "Hi." }] } });
  expect(say({ effort: "high" }, { effort: "high" }).asked).toEqual([]);
});

test("system prompt and effort come before the user's line, the system prompt only in the first turn", () => {
  const wishes = { appendSystemPrompt: "Be kind.", effort: "high" } as const;
  const effort = { subtype: "apply_flag_settings", settings: { effortLevel: "high" } };
  expect(say(wishes, { appended: "Be brief." }).asked).toEqual([
    { subtype: "initialize", appendSystemPrompt: "Be brief.\n\nBe kind." },
    effort,
  ]);
  expect(say(wishes, { first: false }).asked).toEqual([effort]);
});
