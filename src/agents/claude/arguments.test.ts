import { expect, test } from "vitest";
import { fakeLaunch } from "../../../test/fake-agent/run.ts";
import { claudeArguments, turnInput, userLine, type TurnInput } from "./arguments.ts";

const launch = fakeLaunch("/d");
const fresh = { id: "the-id", resumeFrom: null };

test("a fresh session, with the profile's options first and ours, which count, last", () => {
  const args = claudeArguments({
    cwd: "/w",
    launch: { ...launch, args: ["--setting-sources", "project"] },
    session: fresh,
  });
  expect(args.join(" ")).toBe(
    "-p --setting-sources project --session-id the-id --add-dir /w --input-format stream-json --output-format stream-json --verbose --include-partial-messages --setting-sources user --strict-mcp-config",
  );
});

test("a resumed session goes by the transcript's path; files and the worktree are named when there are some", () => {
  const files = { settingsFile: "/s.json", mcpConfigFile: "/m.json", worktreeName: "wt", args: [] };
  const session = { id: "the-id", resumeFrom: "/t/the-id.jsonl" };
  const args = claudeArguments({ cwd: "/w", launch: { ...launch, ...files }, session }).join(" ");
  expect(args).toContain(
    "-p --settings /s.json --mcp-config /m.json --worktree wt --resume /t/the-id.jsonl --add-dir /w",
  );
  expect(args).not.toContain("--session-id");
});

test("the prompt is one line of JSON whatever it holds, and never one of the CLI's own commands", () => {
  const text = (prompt: string): string => {
    const line = userLine([{ type: "text", text: prompt }]);
    expect(line.indexOf("\n")).toBe(line.length - 1);
    return (JSON.parse(line) as { message: { content: { text: string }[] } }).message.content[0]!.text;
  };
  expect(text('two\nlines \u2028 and "quotes"')).toBe('two\nlines \u2028 and "quotes"');
  expect(text("/clear everything")).toBe("\n/clear everything");
  expect(text("--help")).toBe("--help");
});

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
