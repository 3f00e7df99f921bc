import { expect, test } from "vitest";
import { fakeLaunch } from "../../../test/fake-agent/run.ts";
import { claudeArguments, userLine } from "./arguments.ts";

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
