import { expect, test } from "vitest";
import { saying, startDoor } from "./openai.fixture.ts";

const door = await startDoor();

const png = "data:image/png;base64,iVBORw0KGgo=";
const image = (url: unknown) => saying([{ type: "image_url", image_url: { url } }]);
const messages = (...given: unknown[]) => ({ model: "helper", messages: given });
const user = { role: "user", content: "hi" };

type Case = [what: string, body: unknown, param: string | null, code: string, message: RegExp];

const cases: Case[] = [
  ["no model", { messages: [user] }, "model", "missing_required_parameter", /is required/],
  ["an empty model", { model: "", messages: [user] }, "model", "invalid_value", /at least 1/],
  ["a model that is no text", { model: 3, messages: [user] }, "model", "invalid_type", /a string/],
  ["no messages", { model: "helper" }, "messages", "missing_required_parameter", /is required/],
  ["empty messages", messages(), "messages", "invalid_value", /at least 1 items/],
  ["messages that are no array", { model: "helper", messages: "hi" }, "messages", "invalid_type", /an array/],
  ["a message that is no object", messages(user, "hi"), "messages[1]", "invalid_type", /an object/],
  ["no role", messages({ content: "hi" }), "messages[0].role", "missing_required_parameter", /developer/],
  [
    "an unknown role",
    messages({ role: "bot", content: "hi" }),
    "messages[0].role",
    "invalid_value",
    /developer/,
  ],
  [
    "no content",
    messages({ role: "user" }),
    "messages[0].content",
    "missing_required_parameter",
    /is required/,
  ],
  [
    "null of the user",
    messages({ role: "user", content: null }),
    "messages[0].content",
    "invalid_type",
    /string/,
  ],
  ["an empty message", saying("  "), "messages[0].content", "invalid_value", /say something/],
  ["no user", messages({ role: "system", content: "be" }), "messages", "invalid_value", /of the user/],
  [
    "the assistant last",
    messages(user, { role: "assistant", content: "yes" }),
    "messages[1].role",
    "invalid_value",
    /last message must be the user's/,
  ],
  [
    "a tool last",
    messages(user, { role: "tool", content: "42" }, { role: "system", content: "x" }),
    "messages[1].role",
    "invalid_value",
    /runs its tools itself/,
  ],
  [
    "a part without type",
    saying([{ text: "hi" }]),
    "messages[0].content[0]",
    "missing_required_parameter",
    /needs a type/,
  ],
  [
    "a text part without text",
    saying([{ type: "text" }]),
    "messages[0].content[0].text",
    "missing_required_parameter",
    /is required/,
  ],
  [
    "sound",
    saying([
      { type: "text", text: "hi" },
      { type: "input_audio", input_audio: {} },
    ]),
    "messages[0].content[1]",
    "unsupported_content_type",
    /input_audio is not supported/,
  ],
  [
    "a file",
    saying([{ type: "file", file: { file_id: "f" } }]),
    "messages[0].content[0]",
    "unsupported_content_type",
    /type file/,
  ],
  [
    "an image from elsewhere",
    image("https://example.com/a.png"),
    "messages[0].content[0]",
    "unsupported_value",
    /data URL/,
  ],
  [
    "a data URL of something else",
    image("data:text/plain;base64,aGk="),
    "messages[0].content[0]",
    "invalid_value",
    /of an image/,
  ],
  [
    "an image of no known kind",
    image("data:image/png;base64,aGkgdGhlcmU="),
    "messages[0].content[0]",
    "invalid_value",
    /PNG, JPEG/,
  ],
  [
    "an image that is no base64",
    image(`${png.slice(0, -1)}*`),
    "messages[0].content[0]",
    "invalid_value",
    /base64/,
  ],
  [
    "an image of the assistant",
    messages({ role: "assistant", content: [{ type: "image_url", image_url: { url: png } }] }, user),
    "messages[0].content[0]",
    "unsupported_content_type",
    /only text/,
  ],
  ["stream that is no boolean", saying("hi", { stream: "yes" }), "stream", "invalid_type", /true or false/],
  [
    "stream options",
    saying("hi", { stream_options: { include_usage: 1 } }),
    "stream_options.include_usage",
    "invalid_type",
    /true or false/,
  ],
  ["no time", saying("hi", { timeout: 0 }), "timeout", "invalid_value", /at least 1/],
  ["too much time", saying("hi", { timeout: 604_801 }), "timeout", "invalid_value", /at most 604800/],
  ["a part of a second", saying("hi", { timeout: 1.5 }), "timeout", "invalid_type", /whole number/],
  [
    "servers that are no names",
    saying("hi", { disable_mcp_servers: ["a", 1] }),
    "disable_mcp_servers[1]",
    "invalid_type",
    /a string/,
  ],
  ["metadata that is no object", saying("hi", { metadata: "x" }), "metadata", "invalid_type", /an object/],
  [
    "a conversation that is no text",
    saying("hi", { metadata: { conversation_id: 4 } }),
    "metadata.conversation_id",
    "invalid_type",
    /a string/,
  ],
  [
    "a conversation with a line break",
    saying("hi", { metadata: { conversation_id: "a\nb" } }),
    "metadata.conversation_id",
    "invalid_value",
    /256 printable/,
  ],
  [
    "a conversation with a long name",
    saying("hi", { metadata: { conversation_id: "x".repeat(257) } }),
    "metadata.conversation_id",
    "invalid_value",
    /256 printable/,
  ],
  [
    "live text as a word",
    saying("hi", { metadata: { live_text: "yes" } }),
    "metadata.live_text",
    "invalid_value",
    /true or false/,
  ],
  [
    "an unknown effort",
    saying("hi", { reasoning_effort: "huge" }),
    "reasoning_effort",
    "invalid_value",
    /none, minimal, low/,
  ],
  ["two answers", saying("hi", { n: 2 }), "n", "unsupported_value", /must be 1/],
  ["no answers", saying("hi", { n: 0 }), "n", "invalid_value", /at least 1/],
  [
    "tools",
    saying("hi", { tools: [{ type: "function" }] }),
    "tools",
    "unsupported_parameter",
    /tools of its own/,
  ],
  [
    "functions",
    saying("hi", { functions: [{ name: "f" }] }),
    "functions",
    "unsupported_parameter",
    /tools of its own/,
  ],
  [
    "a tool that must be used",
    saying("hi", { tool_choice: "required" }),
    "tool_choice",
    "unsupported_value",
    /none or auto/,
  ],
  [
    "JSON by schema",
    saying("hi", { response_format: { type: "json_schema" } }),
    "response_format",
    "unsupported_value",
    /must be text/,
  ],
  [
    "JSON",
    saying("hi", { response_format: { type: "json_object" } }),
    "response_format",
    "unsupported_value",
    /must be text/,
  ],
  ["probabilities", saying("hi", { logprobs: true }), "logprobs", "unsupported_value", /must be false/],
  [
    "sound as answer",
    saying("hi", { modalities: ["text", "audio"] }),
    "modalities",
    "unsupported_value",
    /nothing but text/,
  ],
  ["too hot", saying("hi", { temperature: 2.1 }), "temperature", "invalid_value", /at most 2/],
  ["a share beyond all", saying("hi", { top_p: 1.1 }), "top_p", "invalid_value", /at most 1/],
  ["five stops", saying("hi", { stop: ["1", "2", "3", "4", "5"] }), "stop", "invalid_value", /at most 4/],
  ["an array", [], null, "invalid_request", /JSON object, not an array/],
  ["what is no JSON", "{", null, "invalid_request", /not valid JSON: Expected property name/],
];

test.each(cases)(
  "%s: refused in the public shape, naming the place",
  async (_what, body, param, code, message) => {
    const answer = await door.post(body);
    expect(answer.status).toBe(400);
    expect(await answer.json()).toEqual({
      error: { message: expect.stringMatching(message), type: "invalid_request_error", param, code },
    });
    expect(door.asked).toEqual([]);
  },
);
