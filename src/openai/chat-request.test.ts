import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { ignoredParameters } from "./request-schema.ts";
import { saying, startDoor } from "./openai.fixture.ts";

const door = await startDoor();

const asked = async (body: object, headers: Record<string, string> = {}) => {
  const answer = await door.post(body, headers);
  expect([answer.status, answer.status === 200 ? "" : await answer.text()]).toEqual([200, ""]);
  const last = door.asked.at(-1);
  if (last === undefined) throw new Error("nothing was asked");
  return { ...last, answer };
};

test("the least that may be asked is filled in", async () => {
  const body = saying("hi");
  const { request, caller, answer } = await asked(body);
  expect(request).toEqual({
    model: "helper",
    stream: false,
    includeUsage: false,
    system: [],
    messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }],
    timeoutSeconds: null,
    effort: null,
    disabledMcpServers: [],
    liveText: null,
    conversation: null,
    user: null,
    retry: { requestId: null, isRetry: false },
    digest: createHash("sha256").update(JSON.stringify(body)).digest("hex"),
  });
  expect(caller).toEqual({ principal: "open", requestId: answer.headers.get("x-request-id") });
});

test("everything that may be asked is reported to the chat", async () => {
  const { request } = await asked(
    saying("hi", {
      stream_options: { include_usage: true },
      timeout: 90,
      disable_mcp_servers: ["github"],
      reasoning_effort: "xhigh",
      metadata: { conversation_id: " chat-7 ", live_text: "true", anything: { deep: 1 } },
      user: { id: "an object, as pipelines send it" },
      n: 1,
      tools: [],
      tool_choice: "none",
      response_format: { type: "text" },
      logprobs: false,
      modalities: ["text"],
    }),
    { "x-user-id": "ann", "x-request-id": "r-1", "x-stainless-retry-count": "1" },
  );
  expect(request).toMatchObject({
    includeUsage: true,
    timeoutSeconds: 90,
    effort: "high",
    disabledMcpServers: ["github"],
    liveText: true,
    conversation: { id: "chat-7", source: "metadata" },
    user: "ann",
    retry: { requestId: "r-1", isRetry: true },
  });
});

test("null stands for what is not given", async () => {
  const nothing = {
    stream: null,
    stream_options: null,
    timeout: null,
    disable_mcp_servers: null,
    metadata: null,
  };
  const more = { n: null, tools: null, response_format: null, logprobs: null, temperature: null, stop: null };
  const { request, answer } = await asked(saying("hi", { ...nothing, ...more, reasoning_effort: null }));
  expect(request).toMatchObject({ stream: false, timeoutSeconds: null, effort: null, liveText: null });
  expect(answer.headers.get("x-service-ignored-params")).toBe(null);
});

test.each([
  ["none", "low"],
  ["minimal", "low"],
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
  ["max", "high"],
])("an effort of %s is %s to the agent, however it is said", async (given, effort) => {
  expect((await asked(saying("hi", { reasoning_effort: given }))).request.effort).toBe(effort);
  expect((await asked(saying("hi", { reasoning: { effort: given } }))).request.effort).toBe(effort);
});

test("system and developer stand apart; tools of other agents are reported in words on the assistant's side", async () => {
  const { request } = await asked({
    model: "helper",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "c1", type: "function", function: { name: "weather", arguments: '{"at":"Rome"}' } },
        ],
      },
      { role: "tool", tool_call_id: "c1", content: [{ type: "text", text: "sunny" }] },
      {
        role: "assistant",
        content: [
          { type: "text", text: "Sunny." },
          { type: "refusal", refusal: "No more." },
        ],
      },
      { role: "assistant", content: "", function_call: { name: "log", arguments: "{}" } },
      { role: "function", name: "log", content: null },
      {
        role: "developer",
        content: [
          { type: "text", text: "In" },
          { type: "text", text: "French." },
        ],
      },
      { role: "user", content: [{ type: "text", text: "And here?" }], name: "Ann" },
    ],
  });
  const said = (role: string, ...texts: string[]) => ({
    role,
    content: texts.map((text) => ({ type: "text", text })),
  });
  expect(request.system).toEqual(["Be brief.", "In\nFrench."]);
  expect(request.messages).toEqual([
    said("user", "Weather?"),
    said("assistant", '[Called the tool weather with {"at":"Rome"}]'),
    said("assistant", "[Result of the tool weather: sunny]"),
    said("assistant", "Sunny.", "No more."),
    said("assistant", "[Called the tool log with {}]"),
    said("assistant", "[Result of the tool log: ]"),
    said("user", "And here?"),
  ]);
});

test.each([
  ["data:image/png;base64,iVBORw0KGgo=", "image/png", "iVBORw0KGgo="],
  ["data:image/jpg;base64,/9j/4AAQ", "image/jpeg", "/9j/4AAQ"],
  ["DATA:image/gif;charset=x;base64,R0lGODlh", "image/gif", "R0lGODlh"],
  ["data:image/png;base64,UklGRgAA", "image/webp", "UklGRgAA"],
])("the image %s is what its bytes say", async (url, mediaType, base64) => {
  for (const image_url of [{ url, detail: "high" }, url]) {
    const { request } = await asked(saying([{ type: "image_url", image_url }]));
    expect(request.messages[0]?.content).toEqual([{ type: "image", mediaType, base64 }]);
  }
});

test("a conversation is named by the first header that says something, then by the metadata", async () => {
  const metadata = { conversation_id: "of the body" };
  const named = async (headers: Record<string, string>) =>
    (await asked(saying("hi", { metadata }), headers)).request.conversation;
  const header = (id: string) => ({ id, source: "header" });
  expect(await named({ "x-conversation-id": "one", "x-openwebui-chat-id": "two" })).toEqual(header("one"));
  expect(await named({ "x-conversation-id": "", "x-openwebui-chat-id": "two" })).toEqual(header("two"));
  expect(
    await named({
      "x-conversation-id": "{{LIBRECHAT_BODY_CONVERSATIONID}}",
      "x-librechat-conversation-id": "three",
    }),
  ).toEqual(header("three"));
  // As bytes in UTF-8, which is how ids beyond ASCII come.
  const bytes = Buffer.from("чат", "utf8").toString("latin1");
  expect(await named({ "x-conversation-id": bytes })).toEqual(header("чат"));
  const ofBody = { id: "of the body", source: "metadata" };
  expect(await named({})).toEqual(ofBody);
  // Chats that Open WebUI does not keep share a name.
  expect(await named({ "x-openwebui-chat-id": "local:Xy" })).toEqual(ofBody);
});

test("what is ignored is said once, by names that can stand in a header", async () => {
  const { answer } = await asked(
    saying("hi", { temperature: 0.5, seed: 4, future_field: [1], "no\nname": 1 }),
  );
  expect(answer.headers.get("x-service-ignored-params")).toBe("temperature, seed, future_field");
  const many = Object.fromEntries(Array.from({ length: 80 }, (_, index) => [`f${index}`, 1]));
  expect(ignoredParameters(many)).toHaveLength(50);
});

test.each([
  { max_tokens: -1, max_completion_tokens: 0, temperature: 2.5, top_p: 1.5 },
  { stop: ["a", "b", "c", "d", "e"], seed: "-1", presence_penalty: "high", frequency_penalty: [] },
  { temperature: {}, stop: 5, user: { id: "1" }, logit_bias: {}, min_p: 0.05 },
])("what is ignored is ignored whatever its value: %j", async (more) => {
  const { answer } = await asked(saying("hi", more));
  expect([answer.status, answer.headers.get("x-service-ignored-params")]).toEqual([
    200,
    Object.keys(more).join(", "),
  ]);
});

test("numbers and booleans may be texts", async () => {
  const { request } = await asked(
    saying("hi", { stream: "true", timeout: "60", n: "1", stream_options: { include_usage: "true" } }),
  );
  expect(request).toMatchObject({ stream: true, timeoutSeconds: 60, includeUsage: true });
});

test("reasoning that a UI sends back as parts is left out, whatever its name", async () => {
  const parts = [
    { type: "thinking", thinking: "hm", signature: "x" },
    { type: "redacted_thinking", data: "x" },
    { type: "reasoning", summary: [] },
    { type: "think", think: "hm" },
  ];
  const { request } = await asked({
    model: "helper",
    messages: [
      { role: "user", content: "one" },
      { role: "assistant", content: [...parts, { type: "text", text: "1" }], reasoning_content: "hm" },
      { role: "user", content: "two" },
    ],
  });
  expect(request?.messages[1]).toEqual({ role: "assistant", content: [{ type: "text", text: "1" }] });
});

test("names of prototypes are names like any other", async () => {
  const body = `{"model":"helper","messages":[{"role":"user","content":"hi","__proto__":{"role":"bot"}}],
    "__proto__":{"stream":true,"n":3},"constructor":{"prototype":{"stream":true}},"metadata":{"__proto__":{"conversation_id":"x"}}}`;
  expect((await door.post(body)).status).toBe(200);
  expect(door.asked.at(-1)?.request).toMatchObject({ stream: false, conversation: null });
  expect(({} as { stream?: unknown }).stream).toBe(undefined);
});

test("many messages, deep nesting and a large image are taken", async () => {
  const turns = Array.from({ length: 4_900 }, () => [
    { role: "user", content: "q" },
    { role: "assistant", content: "a" },
  ]).flat();
  const { request } = await asked({
    model: "helper",
    messages: [...turns, { role: "user", content: "last" }],
  });
  expect(request.messages).toHaveLength(9_801);
  const nested = `${"[".repeat(90)}${"]".repeat(90)}`;
  const deep = JSON.stringify(saying("hi", { extra: 0 })).replace('"extra":0', `"extra":${nested}`);
  expect((await door.post(deep)).status).toBe(200);
  const base64 = `iVBORw0KGgo${"A".repeat(19_000_000)}A`;
  const large = await asked(
    saying([{ type: "image_url", image_url: { url: `data:image/png;base64,${base64}` } }]),
  );
  expect(large.request.messages[0]?.content[0]).toMatchObject({ type: "image", mediaType: "image/png" });
});
