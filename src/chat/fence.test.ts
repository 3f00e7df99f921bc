import fc from "fast-check";
import { expect, test } from "vitest";
import { contentOf } from "./delta.ts";

const use = (name: string, input: unknown): string => contentOf({ kind: "tool_use", id: "t", name, input });
const result = (content: string, isError = false): string =>
  contentOf({ kind: "tool_result", id: "t", content, isError });

test("a call is a blank line and a fence with the tool's name around its input", () => {
  expect(use("Bash", { command: "ls\n-l", n: [1] })).toBe(
    '\n\n```tool_use:Bash\n{\n  "command": "ls\\n-l",\n  "n": [\n    1\n  ]\n}\n```\n',
  );
  expect(use("Bash", undefined)).toBe("\n\n```tool_use:Bash\nnull\n```\n");
});

test("a result is a fence around its content; one of an error says so", () => {
  expect(result("one\ntwo")).toBe("\n```tool_result\none\ntwo\n```\n");
  expect(result("one\n")).toBe("\n```tool_result\none\n```\n");
  expect(result("")).toBe("\n```tool_result\n```\n");
  expect(result("no", true)).toBe("\n```tool_result:error\nno\n```\n");
});

test.for([
  ["a\n```\nb", 4],
  ["```js\nx\n```", 4],
  ["   `````\n```", 6],
  ["a\r````", 5],
  ["in the ``` middle ````", 3],
  ["    ````", 3],
  ["``", 3],
] as const)("the fence around %j has %i backticks", ([content, length]) => {
  expect(/^\n(`+)tool_result\n/.exec(result(content))?.[1]).toHaveLength(length);
});

test("no content ends its block before its end", () => {
  const line = fc.oneof(fc.string(), fc.stringMatching(/^ {0,5}`{1,8}[ \t]*$/));
  fc.assert(
    fc.property(fc.array(line), fc.constantFrom("\n", "\r\n", "\r"), (lines, lineBreak) => {
      const content = lines.join(lineBreak);
      const [, fence = "", body = ""] = /^\n(`+)tool_result\n([^]*)$/.exec(result(content)) ?? [];
      const told = body.split(/\r\n|\r|\n/);
      const end = told.findIndex((one) => /^ {0,3}(`+)[ \t]*$/.exec(one)?.[1]?.startsWith(fence));
      expect(end).toBe(told.length - 2);
      expect(body.startsWith(content)).toBe(true);
    }),
  );
});

test("whatever a tool is called, its name stays in the line of the fence and ends nothing", () => {
  expect(use("mcp__files__read-1", {})).toContain("```tool_use:mcp__files__read-1\n");
  expect(use("a`b\nc\u2028d\u0000e f", {})).toContain("```tool_use:a_b_c_d_e_f\n");
});

test("text is itself, and thinking is no content", () => {
  expect(contentOf({ kind: "final", text: "```a\n" })).toBe("```a\n");
  expect(contentOf({ kind: "thinking", text: "Hm" })).toBe("");
});
