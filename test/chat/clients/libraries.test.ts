import { randomUUID } from "node:crypto";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage, type AIMessageChunk } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { APICallError, generateText, RetryError, streamText } from "ai";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { processesMarked } from "../../processes.ts";
import { until } from "../../until.ts";
import { key, startScene, untilIdle, askedOf, lastAsked, type Scene } from "./scene.ts";
import { work, workContent } from "./scripted.ts";
import { checkWire, recordingFetch } from "./wire.ts";

/**
 * Vercel's AI SDK and LangChain against the service with the real agent CLI. All but a few turns of a library are of one
 * conversation: one process.
 */
let scene: Scene;
let wire = recordingFetch();
beforeAll(async () => {
  scene = await startScene();
});
afterEach(() => checkWire(wire.exchanges));

const sdk = ({ apiKey = key, model = "default", conversation = "of the SDK" } = {}) => {
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

const chain = ({ apiKey = key, model = "default", conversation = "of the chain" } = {}): ChatOpenAI => {
  wire = recordingFetch();
  return new ChatOpenAI({
    model,
    apiKey,
    maxRetries: 0,
    configuration: {
      baseURL: scene.baseURL,
      fetch: wire.fetch,
      defaultHeaders: { "X-Conversation-Id": conversation },
    },
  });
};

const totalOf = ({ usage_metadata: usage }: { usage_metadata?: unknown }): number =>
  (usage as { total_tokens: number }).total_tokens;

describe("the AI SDK", () => {
  test("a streamed answer has its thoughts as reasoning, and tools and words as text, between them", async () => {
    const answer = streamText({ model: sdk(), prompt: "do the work, streaming" });
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

  test("whole answers are the same, and sent back to the agent they are known again, with thoughts and tools in them", async () => {
    const model = sdk({ conversation: "" });
    const first = { role: "user" as const, content: "do the work, and remember" };
    const answer = await generateText({ model, messages: [first] });
    expect(answer).toMatchObject({
      text: workContent(scene.file),
      reasoningText: work.thoughts.join("\n\n"),
      finishReason: "stop",
      toolCalls: [],
    });
    expect(answer.usage.totalTokens).toBeGreaterThan(0);
    const again = await generateText({
      model,
      messages: [
        first,
        ...answer.response.messages,
        { role: "user", content: 'scenario: text {"text": "As said."}' },
      ],
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
      model: sdk({ model: "default:haiku" }),
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
      JSON.stringify({ type: "image", source: { type: "base64", media_type: "image/png", data } }).slice(
        0,
        -1,
      ),
    );
  });

  test("a failure in the middle of a stream is its error part, after what came before", async () => {
    const told: unknown[] = [];
    const answer = streamText({
      model: sdk(),
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
    const failed = generateText({ model: sdk(), prompt: "fail with 401", maxRetries: 0 });
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
    const failed = generateText({ model: sdk(options), prompt: "hi" });
    const error = await failed.then(() => null).catch((reason: unknown) => reason);
    expect(RetryError.isInstance(error)).toBe(false);
    expect(APICallError.isInstance(error) && error).toMatchObject(told);
    expect(wire.exchanges).toHaveLength(1);
  });
});

describe("LangChain", () => {
  test("a streamed answer adds up: thoughts apart, tools and words as content, the usage once", async () => {
    const chunks: AIMessageChunk[] = await Array.fromAsync(await chain().stream("do the work, streaming"));
    const whole = chunks.reduce((before, chunk) => before.concat(chunk));
    expect(whole.content).toBe(workContent(scene.file));
    expect(whole.additional_kwargs["reasoning_content"]).toBe(work.thoughts.join("\n\n"));
    expect(whole.tool_calls).toEqual([]);
    const { input_tokens: input = 0, output_tokens: output = 0 } = whole.usage_metadata ?? {};
    expect(input).toBeGreaterThan(0);
    expect(output).toBeGreaterThan(0);
    expect(totalOf(whole)).toBe(input + output);
    const said = chunks.filter(({ usage_metadata: usage }) => usage !== undefined);
    expect(said).toHaveLength(1);
  });

  test("whole answers are the same, and sent back to the agent they are known again, with thoughts and tools in them", async () => {
    const model = chain({ conversation: "" });
    const first = new HumanMessage("do the work, and recall it");
    const answer = await model.invoke([first]);
    expect(answer.content).toBe(workContent(scene.file));
    expect(answer.additional_kwargs["reasoning_content"]).toBe(work.thoughts.join("\n\n"));
    expect(answer.tool_calls).toEqual([]);
    expect(totalOf(answer)).toBeGreaterThan(0);
    expect(answer.response_metadata["finish_reason"]).toBe("stop");
    const next = new HumanMessage('scenario: text {"text": "As said."}');
    expect((await model.invoke([first, answer, next])).content).toBe("As said.");
    expect(lastAsked(scene.model)).toContain("do the work, and recall it");
    expect(lastAsked(scene.model)).not.toContain("begun elsewhere");
  });

  test("a failure in the middle of a stream is thrown, after what came before", async () => {
    let content = "";
    const reading = async (): Promise<void> => {
      for await (const chunk of await chain().stream("fail with 500 after a tool")) content += chunk.text;
    };
    await expect(reading()).rejects.toThrow(/refuses/);
    expect(content).toContain("I try it.");
  });

  test.each([
    {
      what: "a model that fails",
      options: {},
      says: "fail with 401",
      told: { status: 502, code: "model_credentials" },
    },
    { what: "a wrong key", options: { apiKey: "wrong" }, says: "hi", told: { status: 401 } },
    {
      what: "an unknown model",
      options: { model: "gpt-9" },
      says: "hi",
      told: { status: 404, code: "model_not_found" },
    },
  ])("$what is told with its status", async ({ options, says, told }) => {
    const error = await chain(options)
      .invoke(says)
      .then(() => null)
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject(told);
    expect(wire.exchanges).toHaveLength(1);
  });

  test("an answer that is aborted while a tool runs ends the tool", async () => {
    const model = chain({ conversation: "left in a tool" });
    const leaving = new AbortController();
    const id = randomUUID();
    const command = JSON.stringify({ command: `exec env SERVICE_JOB_ID=${id} sleep 600` });
    const asked = model.invoke(`scenario: bash ${command}`, { signal: leaving.signal });
    const rejected = asked.then(() => null).catch((reason: unknown) => reason);
    await until(() => processesMarked(id).length > 0, { what: "the tool to run" });
    leaving.abort();
    expect(String(await rejected)).toMatch(/abort/i);
    await until(() => processesMarked(id).length === 0, { what: "the tool to be gone" });
    await untilIdle(scene);
    const next = await model.invoke('scenario: text {"text": "Here I am."}');
    expect(next.content).toBe("Here I am.");
  });
});
