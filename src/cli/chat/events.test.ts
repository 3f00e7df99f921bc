import { Writable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { ChatChunk } from "../../client/chat.ts";
import { chooseAnswerView } from "../live/view.ts";
import type { Kind } from "../options.ts";
import { createChatEvents } from "./events.ts";

type Choice = ChatChunk["choices"][number];

const chunk = (delta: Choice["delta"], tags: Partial<Choice> = {}): ChatChunk => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason: null, ...tags }],
});

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

/** What `svc chat` writes to a pipe. */
const shown = async (chunks: ChatChunk[], hide: Kind[] = [], results = 6): Promise<string> => {
  let text = "";
  const stream = new Writable({
    write: (piece: Buffer, _encoding, done) => {
      text += piece.toString();
      done();
    },
  });
  const view = await chooseAnswerView(stream as unknown as NodeJS.WriteStream, results);
  const eventsOf = createChatEvents(new Set(hide));
  for (const each of chunks) eventsOf(each).forEach(view.event);
  view.close();
  return text;
};

const turn = [
  chunk({ role: "assistant" }),
  thinking("Let me"),
  thinking(" look.\nYes."),
  narration("I look.\n"),
  call("1", "Bash", { command: "ls -la", description: "list" }),
  result("1", "a\nb"),
  final("Two files."),
  chunk({}, { finish_reason: "stop" }),
];

describe("an answer", () => {
  test("is thinking, narration, tools and text, a blank line between them", async () => {
    expect(await shown(turn)).toBe(
      "│ Let me look.\n│ Yes.\n\nI look.\n\n● Bash  ls -la\n  ⎿ a\n    b\n\nTwo files.\n",
    );
  });

  test("that comes word by word is the same text", async () => {
    expect(await shown([live("Hel"), live("lo "), live("wor"), live("ld.\n")])).toBe("Hello world.\n");
  });

  test.each<[Kind[], string]>([
    [["thinking"], "I look.\n\n● Bash  ls -la\n  ⎿ a\n    b\n\nTwo files.\n"],
    [["thinking", "tools"], "I look.\nTwo files.\n"],
    [["thinking", "tools", "narration"], "Two files.\n"],
    [["tools", "final"], "│ Let me look.\n│ Yes.\n\nI look.\n"],
  ])("leaves out %j when told to", async (hide, text) => {
    expect(await shown(turn, hide)).toBe(text);
  });

  test("leaves out text that is not distinguished only when all text is to be left out", async () => {
    expect(await shown([live("x")], ["narration"])).toBe("x\n");
    expect(await shown([live("x")], ["narration", "final"])).toBe("");
  });

  test("has no control character that came from the model, however it was split", async () => {
    const hostile = "a\u001b]0;owned\u0007b\u001b[2Jc";
    const text = await shown([
      ...hostile.split("").map(live),
      call("1", `Ba${hostile}`, { command: hostile }),
      result("1", hostile),
      chunk({ content: hostile }, { x_service_event_type: "stream_config" }),
      final(hostile),
    ]);
    expect(text.replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
    expect(text).toContain("● Baabc  abc\n  ⎿ abc\n\nabc\n");
  });
});

describe("tool results", () => {
  const long = Array.from({ length: 9 }, (_, index) => `line ${index}`).join("\n");

  test("are shortened to their first lines, and whole when that is asked for", async () => {
    expect(await shown([call("1", "Bash", {}), result("1", long)])).toBe(
      "● Bash\n  ⎿ line 0\n    line 1\n    line 2\n    line 3\n    line 4\n    line 5\n    … 3 more lines\n",
    );
    const whole = await shown([call("1", "Bash", {}), result("1", long)], [], Infinity);
    expect(whole.match(/line \d/g)).toHaveLength(9);
  });

  test("name their call when it is not the line above, and say when it failed", async () => {
    const chunks = [call("1", "Read", { path: "a" }), call("2", "Read", { path: "b" })];
    expect(await shown([...chunks, result("1", "A"), result("2", "", true)])).toBe(
      "● Read  a\n● Read  b\n  ⎿ of Read  a\n    A\n  ⎿ of Read  b\n    failed\n    (nothing)\n",
    );
  });

  test("may have fences of their own", async () => {
    expect(await shown([call("1", "Read", {}), result("1", "```js\nx\n```")])).toBe(
      "● Read\n  ⎿ ```js\n    x\n    ```\n",
    );
  });
});

test("the answer to /stream-status is shown in words", async () => {
  const visibility = {
    show_thinking: false,
    show_tools: true,
    show_text: true,
    show_narration: true,
    show_final: true,
  };
  const told = chunk({ content: JSON.stringify(visibility) }, { x_service_event_type: "stream_config" });
  expect(await shown([told])).toMatch(/thinking +off\ntools +on\n[^]*everyone who talks to the agent/);
});
