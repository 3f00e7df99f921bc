import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, RetryError, streamText } from "ai";
import { afterEach, beforeAll, expect, test } from "vitest";
import { key, startScene, untilIdle, askedOf, lastAsked, type Scene } from "./scene.ts";
import { work, workContent } from "./scripted.ts";
import { checkWire, recordingFetch } from "./wire.ts";

/** Vercel's AI SDK against the service with the real agent CLI. */
let scene: Scene;
let wire = recordingFetch();
beforeAll(async () => {
  scene = await startScene();
});
afterEach(() => checkWire(wire.exchanges));

const agent = ({ apiKey = key, model = "default", conversation = "" } = {}) => {
  wire = recordingFetch();
  const { fetch } = wire;
  const provider = createOpenAICompatible({
    name: "svc",
    baseURL: scene.baseURL,
    apiKey,
    fetch,
    includeUsage: true,
    headers: { "X-Conversation-Id": conversation },
  });
  return provider(model);
};

/** What a streamed answer was, part by part; neighbours of a kind as one. */
const kindsOf = async (parts: AsyncIterable<{ type: string }>): Promise<string[]> => {
  const kinds: string[] = [];
  for await (const { type } of parts)
    if (/-delta$|^(finish|error|abort|tool-\w+)$/.test(type) && kinds.at(-1) !== type) kinds.push(type);
  return kinds;
};

test("a streamed answer has its thoughts as reasoning, and tools and words as text, between them", async () => {
  const answer = streamText({ model: agent(), prompt: "do the work, streaming" });
  expect(await kindsOf(answer.stream)).toEqual([
    "reasoning-delta",
    "text-delta",
    "reasoning-delta",
    "text-delta",
    "finish",
  ]);
  expect(await answer.text).toBe(workContent(scene.file));
  expect(await answer.reasoningText).toBe(work.thoughts.join("\n\n"));
  expect(await answer.finishReason).toBe("stop");
  expect(await answer.toolCalls).toEqual([]);
  const { inputTokens = 0, outputTokens = 0, totalTokens } = await answer.totalUsage;
  expect(inputTokens).toBeGreaterThan(0);
  expect(outputTokens).toBeGreaterThan(0);
  expect(totalTokens).toBe(inputTokens + outputTokens);
});

test("a whole answer is the same", async () => {
  const answer = await generateText({ model: agent(), prompt: "do the work, whole" });
  expect(answer).toMatchObject({
    text: workContent(scene.file),
    reasoningText: work.thoughts.join("\n\n"),
    finishReason: "stop",
    toolCalls: [],
  });
  expect(answer.usage.totalTokens).toBeGreaterThan(0);
});

test("its answers sent back to the agent are known again, with thoughts and tools in them", async () => {
  const model = agent();
  const first = { role: "user" as const, content: "do the work, and remember" };
  const { response } = await generateText({ model, messages: [first] });
  const again = await generateText({
    model,
    messages: [first, ...response.messages, { role: "user", content: 'scenario: text {"text": "As said."}' }],
  });
  expect(again.text).toBe("As said.");
  expect(wire.exchanges.map(({ answered }) => answered.get("x-service-conversation-source"))).toEqual([
    "hash",
    "hash",
  ]);
  expect(lastAsked(scene.model)).toContain("do the work, and remember");
  expect(lastAsked(scene.model)).not.toContain("begun elsewhere");
});

test("an image and the wished model reach the model", async () => {
  const data =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const { response } = await generateText({
    model: agent({ model: "default:haiku" }),
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: 'scenario: text {"text": "A dot."}' },
          { type: "file", mediaType: "image/png", data },
        ],
      },
    ],
  });
  expect(response.modelId).toBe("default:haiku");
  expect(askedOf(scene.model).at(-1)?.body).toMatchObject({ model: expect.stringContaining("haiku") });
  expect(lastAsked(scene.model)).toContain(
    JSON.stringify({ type: "image", source: { type: "base64", media_type: "image/png", data } }).slice(0, -1),
  );
});

test("a failure in the middle of a stream is its error part, after what came before", async () => {
  const told: unknown[] = [];
  const answer = streamText({
    model: agent(),
    prompt: "fail with 500 after a tool",
    onError: ({ error }) => void told.push(error),
  });
  const kinds = await kindsOf(answer.stream);
  expect(kinds.slice(0, 3)).toEqual(["reasoning-delta", "text-delta", "error"]);
  expect(JSON.stringify(told.map(String))).toContain("refuses");
  expect(wire.exchanges).toHaveLength(1);
});

test("a failure of a whole answer carries the service's sentence", async () => {
  const before = askedOf(scene.model).length;
  const failed = generateText({ model: agent(), prompt: "fail with 401", maxRetries: 0 });
  const error = await failed.then(() => null).catch((reason: unknown) => reason);
  expect(APICallError.isInstance(error) && error).toMatchObject({
    statusCode: 502,
    message: expect.stringContaining("refuses"),
    data: { error: { code: "model_credentials" } },
  });
  expect(askedOf(scene.model).length - before).toBe(1);
});

test.each([
  { what: "a wrong key", options: { apiKey: "wrong" }, told: { statusCode: 401, message: "Unauthorized" } },
  {
    what: "an unknown model",
    options: { model: "gpt-9" },
    told: { statusCode: 404, message: expect.stringContaining("gpt-9") },
  },
])("$what is refused once", async ({ options, told }) => {
  const failed = generateText({ model: agent(options), prompt: "hi" });
  const error = await failed.then(() => null).catch((reason: unknown) => reason);
  expect(RetryError.isInstance(error)).toBe(false);
  expect(APICallError.isInstance(error) && error).toMatchObject(told);
  expect(wire.exchanges).toHaveLength(1);
});

test("an answer that is aborted frees the agent, and the conversation continues", async () => {
  const model = agent({ conversation: "left" });
  const leaving = new AbortController();
  const answer = streamText({ model, prompt: "write slowly", abortSignal: leaving.signal });
  const kinds: string[] = [];
  for await (const { type } of answer.stream) {
    kinds.push(type);
    if (type === "reasoning-delta") leaving.abort();
  }
  expect(kinds.at(-1)).toBe("abort");
  await untilIdle(scene);
  const next = await generateText({ model, prompt: 'scenario: text {"text": "Here I am."}' });
  expect(next.text).toBe("Here I am.");
});
