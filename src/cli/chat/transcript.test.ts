import { styleText } from "node:util";
import { describe, expect, test } from "vitest";
import type { ChatChunk } from "../../client/chat.ts";
import { unpainted, type Paint } from "../../view/paint.ts";
import { sanitise } from "../../view/sanitise.ts";
import type { Kind } from "../options.ts";
import { createTranscript } from "./transcript.ts";

type Choice = ChatChunk["choices"][number];
type Tags = Partial<Choice>;

const chunk = (delta: Choice["delta"], tags: Tags = {}): ChatChunk => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason: null, ...tags }],
});

const role = chunk({ role: "assistant" });
const thinking = (text: string) => chunk({ reasoning_content: text }, { x_service_event_type: "thinking" });
const live = (text: string) => chunk({ content: text });
const narration = (text: string) => chunk({ content: text }, { x_service_event_type: "narration" });
const final = (text: string) => chunk({ content: text }, { x_service_event_type: "final" });
const call = (id: string, name: string, input: object) =>
  chunk(
    { content: `\n\`\`\`tool_use:${name}\n${JSON.stringify(input, null, 2)}\n\`\`\`\n` },
    { x_service_event_type: "tool_use", x_service_tool_name: name, x_service_tool_use_id: id },
  );
const result = (id: string, text: string, isError = false) =>
  chunk(
    { content: `\n\`\`\`\`tool_result${isError ? ":error" : ""}\n${text}\n\`\`\`\`\n` },
    { x_service_event_type: "tool_result", x_service_tool_use_id: id, x_service_is_error: isError },
  );
const stop = chunk({}, { finish_reason: "stop" });

type Options = { hide?: Kind[]; full?: boolean; columns?: number; paint?: Paint };

const shown = (
  chunks: ChatChunk[],
  { hide = [], full = false, columns, paint = unpainted }: Options = {},
) => {
  let text = "";
  const transcript = createTranscript({
    write: (piece) => (text += piece),
    paint,
    columns: () => columns,
    hide: new Set(hide),
    full,
  });
  for (const each of chunks) transcript.take(each);
  const open = text;
  transcript.end();
  return { text, open, shortened: transcript.shortened() };
};

const turn = [
  role,
  thinking("Let me"),
  thinking(" look.\nYes."),
  narration("I look.\n"),
  call("1", "Bash", { command: "ls -la", description: "list" }),
  result("1", "a\nb"),
  final("Two files."),
  stop,
];

describe("an answer", () => {
  test("is thinking, narration, tools and text, a blank line between them", () => {
    expect(shown(turn).text).toBe(
      "│ Let me look.\n│ Yes.\n\nI look.\n\n● Bash  ls -la\n  ⎿ a\n    b\n\nTwo files.\n",
    );
  });

  test("that comes word by word is written as it comes", () => {
    const { open, text } = shown([role, live("\n\nHel"), live("lo "), live("wor"), live("ld.\n")]);
    expect(open).toBe("Hello world.");
    expect(text).toBe("Hello world.\n");
  });

  test("keeps the blank lines within a text, and drops those at its ends", () => {
    expect(shown([live("a\n"), live("\n"), live("b\n\n"), call("1", "Read", {}), live("\nc")]).text).toBe(
      "a\n\nb\n\n● Read\n\nc\n",
    );
  });

  test("of several text blocks has a blank line between them", () => {
    expect(shown([narration("a"), narration("b\n"), final("c")]).text).toBe("a\n\nb\n\nc\n");
  });

  test.each<[Kind[], string]>([
    [["thinking"], "I look.\n\n● Bash  ls -la\n  ⎿ a\n    b\n\nTwo files.\n"],
    [["thinking", "tools"], "I look.\n\nTwo files.\n"],
    [["thinking", "tools", "narration"], "Two files.\n"],
    [["tools", "final"], "│ Let me look.\n│ Yes.\n\nI look.\n"],
  ])("leaves out %j when told to", (hide, text) => {
    expect(shown(turn, { hide }).text).toBe(text);
  });

  test("leaves out text that is not distinguished only when all text is to be left out", () => {
    expect(shown([live("x")], { hide: ["narration"] }).text).toBe("x\n");
    expect(shown([live("x")], { hide: ["narration", "final"] }).text).toBe("");
  });

  test("has no control character that came from the model, however it was split", () => {
    const hostile = "a\u001b]0;owned\u0007b\u001b[2Jc";
    const { text } = shown([
      ...hostile.split("").map(live),
      ...hostile.split("").map(thinking),
      call("1", `Ba${hostile}`, { command: hostile }),
      result("1", hostile),
      chunk({ content: hostile }, { x_service_event_type: "stream_config" }),
      final(hostile),
    ]);
    expect(text).toBe("abc\n\n│ abc\n\n● Baabc  abc\n  ⎿ abc\n\nabc\n\nabc\n");
  });

  test("is coloured where colours are wanted, and reads the same without them", () => {
    const paint: Paint = (format, text) => styleText(format, text, { validateStream: false });
    const { text } = shown(turn, { paint });
    expect(text).toContain("\u001b[36m● Bash  ls -la\u001b[39m");
    expect(text.startsWith("\u001b[2m\u001b[3m│ Let me")).toBe(true);
    expect(sanitise(text)).toBe(shown(turn).text);
  });
});

describe("tool results", () => {
  const long = Array.from({ length: 9 }, (_, index) => `line ${index}`).join("\n");

  test("are shortened to their first lines, and kept whole for later", () => {
    const { text, shortened } = shown([call("1", "Bash", {}), result("1", long)]);
    expect(text).toBe(
      "● Bash\n  ⎿ line 0\n    line 1\n    line 2\n    line 3\n    line 4\n    line 5\n    … 3 more lines\n",
    );
    expect(shortened).toEqual([long]);
  });

  test("are shown whole when that is asked for", () => {
    const { text, shortened } = shown([call("1", "Bash", {}), result("1", long)], {
      full: true,
      columns: 20,
    });
    expect(text.match(/line \d/g)).toHaveLength(9);
    expect(shortened).toEqual([]);
  });

  test("fit the terminal, as their calls do", () => {
    const wide = "日本".repeat(20);
    const { text, shortened } = shown([call("1", "Bash", { command: wide }), result("1", wide)], {
      columns: 24,
    });
    expect(text).toBe("● Bash  日本日本日本日…\n  ⎿ 日本日本日本日本日…\n");
    expect(shortened).toEqual([wide]);
  });

  test("name their call when it is not the line above", () => {
    const chunks = [call("1", "Read", { path: "a" }), call("2", "Read", { path: "b" })];
    expect(shown([...chunks, result("1", "A"), result("2", "", true)]).text).toBe(
      "● Read  a\n● Read  b\n  ⎿ of Read  a\n    A\n  ⎿ of Read  b\n    (nothing)\n",
    );
  });

  test("may have fences of their own", () => {
    expect(shown([call("1", "Read", {}), result("1", "```js\nx\n```")]).text).toBe(
      "● Read\n  ⎿ ```js\n    x\n    ```\n",
    );
  });
});

test.each([
  [
    { show_thinking: false, show_tools: true, show_text: true, show_narration: true, show_final: true },
    "The agent shows: tools, narration, final\nIt hides: thinking\n",
  ],
  [
    { show_thinking: true, show_tools: true, show_text: false, show_narration: true, show_final: true },
    "The agent shows: thinking, tools\nIt hides: narration, final\n",
  ],
])("the service's visibility is told in words: %j", (visibility, words) => {
  const config = chunk({ content: JSON.stringify(visibility) }, { x_service_event_type: "stream_config" });
  expect(shown([role, config, stop], { hide: ["final"] }).text).toContain(words);
});
