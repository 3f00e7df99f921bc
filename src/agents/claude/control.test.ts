import { expect, test } from "vitest";
import { turnInput, type TurnInput } from "./arguments.ts";

const say = (more: Partial<TurnInput["turn"]>, setup: Partial<TurnInput> = {}) => {
  const { input, sent } = turnInput({
    turn: {
      content: [{ type: "text", text: "Hi." }],
      appendSystemPrompt: null,
      model: null,
      effort: null,
      ...more,
    },
    first: true,
    appended: null,
    sent: { model: "sonnet", effort: null },
    ...setup,
  });
  const lines = input.split("\n").filter((line) => line !== "");
  return {
    sent,
    asked: lines.slice(0, -1).map((line) => (JSON.parse(line) as { request: unknown }).request),
    last: JSON.parse(lines.at(-1)!) as unknown,
  };
};

test("a turn that asks for nothing, or for what is so already, is the user's line alone", () => {
  const { asked, last, sent } = say({ model: "sonnet" });
  expect(asked).toEqual([]);
  expect(last).toMatchObject({ type: "user", message: { content: [{ type: "text", text: "Hi." }] } });
  expect(sent).toEqual({ model: "sonnet", effort: null });
});

test("system prompt, model and effort come before the user's line, the system prompt only in the first turn", () => {
  const wishes = { appendSystemPrompt: "Be kind.", model: "opus", effort: "high" } as const;
  const { asked, sent } = say(wishes, { appended: "Be brief." });
  expect(asked).toEqual([
    { subtype: "initialize", appendSystemPrompt: "Be brief.\n\nBe kind." },
    { subtype: "set_model", model: "opus" },
    { subtype: "apply_flag_settings", settings: { effortLevel: "high" } },
  ]);
  expect(sent).toEqual({ model: "opus", effort: "high" });
  expect(say(wishes, { first: false, sent: sent }).asked).toEqual([]);
  expect(say({ model: null, effort: "low" }, { sent: sent }).sent).toEqual({ model: "opus", effort: "low" });
});
