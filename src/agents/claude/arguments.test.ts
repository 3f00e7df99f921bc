import { expect, test } from "vitest";
import { fakeLaunch } from "../../../test/fake-agent/run.ts";
import {
  approvedMode,
  claudeArguments,
  messageLine,
  turnInput,
  userLine,
  type TurnInput,
} from "./arguments.ts";

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
  const files = { settingsFile: "/s.json", mcpConfigFile: "/m.json", args: [] };
  const worktree = { name: "wt", settingsFile: "/w.json" };
  const session = { id: "the-id", resumeFrom: "/t/the-id.jsonl" };
  const start = (worktree: typeof launch.worktree): string =>
    claudeArguments({ cwd: "/w", launch: { ...launch, ...files, worktree }, session }).join(" ");
  const args = start(null);
  expect(args).toContain("-p --settings /s.json --mcp-config /m.json --resume /t/the-id.jsonl --add-dir /w");
  expect(start(worktree)).toContain("-p --settings /w.json --worktree wt --mcp-config /m.json --resume");
  expect(args).not.toContain("--session-id");
});

test("a run that may ask has the permission channel, without the tools that are not wanted; for plans its mode is plan", () => {
  const bypass = { ...launch, args: ["--dangerously-skip-permissions"], bypassPermissions: true };
  const given = (asks?: { question: boolean; plan: boolean }, profile = bypass): string =>
    claudeArguments({ cwd: "/w", launch: profile, session: fresh, ...(asks && { asks }) })
      .join(" ")
      .split(" --session-id")[0]!;
  const none = "-p --dangerously-skip-permissions";
  expect(given()).toBe(none);
  expect(given({ question: false, plan: false })).toBe(none);
  expect(given({ question: true, plan: false })).toBe(
    `${none} --permission-prompt-tool stdio --disallowedTools=EnterPlanMode,ExitPlanMode`,
  );
  expect(given({ question: false, plan: true })).toBe(
    "-p --permission-prompt-tool stdio --permission-mode plan --allow-dangerously-skip-permissions --disallowedTools=AskUserQuestion",
  );
  const edits = { ...launch, args: ["--permission-mode=acceptEdits"] };
  expect(given({ question: true, plan: true }, edits)).toBe(
    "-p --permission-mode=acceptEdits --permission-prompt-tool stdio --permission-mode plan",
  );
  const planner = { ...launch, args: ["--permission-mode=plan"] };
  expect([bypass, edits, launch, planner].map(approvedMode)).toEqual(
    "bypassPermissions acceptEdits default acceptEdits".split(" "),
  );
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
  const inBetween = (given: string): string =>
    (
      JSON.parse(messageLine({ id: "u", text: given, when: "next" })) as {
        message: { content: { text: string }[] };
      }
    ).message.content[0]!.text;
  expect(inBetween("\n /clear")).toBe("\u200b\n /clear");
  expect(inBetween("use a/b")).toBe("use a/b");
});

const say = (more: Partial<TurnInput["turn"]>, setup: Partial<TurnInput> = {}) => {
  const input = turnInput({
    turn: { content: [{ type: "text", text: "Hi." }], appendSystemPrompt: null, effort: null, ...more },
    first: true,
    resumes: false,
    appended: null,
    effort: null,
    asks: undefined,
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

test("system prompt and effort come before the user's line, the system prompt only in the first turn, and a resumed session takes the present one", () => {
  const wishes = { appendSystemPrompt: "Be kind.", effort: "high" } as const;
  const effort = { subtype: "apply_flag_settings", settings: { effortLevel: "high" } };
  expect(say(wishes, { appended: "Be brief." }).asked).toEqual([
    { subtype: "initialize", appendSystemPrompt: "Be brief.\n\nBe kind." },
    effort,
  ]);
  expect(say(wishes, { first: false }).asked).toEqual([effort]);
  expect(say({}, { resumes: true }).asked).toEqual([{ subtype: "initialize", systemPromptSnapshot: false }]);
  expect(say({}, { resumes: true, first: false }).asked).toEqual([]);
});

test("a run that may ask registers its hooks with the first turn, in the one initialize; no content is no line", () => {
  const asks = { question: true, plan: false };
  const hooks = {
    PreToolUse: [
      {
        matcher: "AskUserQuestion|ExitPlanMode",
        hookCallbackIds: ["ask"],
        timeout: expect.any(Number) as number,
      },
    ],
  };
  expect(say({}, { asks }).asked).toEqual([{ subtype: "initialize", hooks }]);
  expect(say({ appendSystemPrompt: "Be kind." }, { asks }).asked).toEqual([
    { subtype: "initialize", appendSystemPrompt: "Be kind.", hooks },
  ]);
  expect(say({}, { asks, first: false }).asked).toEqual([]);
  expect(say({ content: [] }, { asks }).last).toMatchObject({ request: { subtype: "initialize", hooks } });
});
