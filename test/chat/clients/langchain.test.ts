import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { HumanMessage, type AIMessageChunk } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { afterEach, beforeAll, expect, test } from "vitest";
import { isRunning } from "../../processes.ts";
import { temporaryDirectory } from "../../temporary.ts";
import { until } from "../../until.ts";
import { key, lastAsked, startScene, untilIdle, type Scene } from "./scene.ts";
import { work, workContent } from "./scripted.ts";
import { checkWire, recordingFetch } from "./wire.ts";

/** LangChain against the service with the real agent CLI. */
let scene: Scene;
let wire = recordingFetch();
beforeAll(async () => {
  scene = await startScene();
});
afterEach(() => checkWire(wire.exchanges));

const agent = ({ apiKey = key, model = "default", conversation = "" } = {}): ChatOpenAI => {
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

test("a streamed answer adds up: thoughts apart, tools and words as content, the usage once", async () => {
  const chunks: AIMessageChunk[] = await Array.fromAsync(await agent().stream("do the work, streaming"));
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

test("a whole answer is the same", async () => {
  const answer = await agent().invoke("do the work, whole");
  expect(answer.content).toBe(workContent(scene.file));
  expect(answer.additional_kwargs["reasoning_content"]).toBe(work.thoughts.join("\n\n"));
  expect(answer.tool_calls).toEqual([]);
  expect(totalOf(answer)).toBeGreaterThan(0);
  expect(answer.response_metadata["finish_reason"]).toBe("stop");
});

test("its answers sent back to the agent are known again, with thoughts and tools in them", async () => {
  const model = agent();
  const first = new HumanMessage("do the work, and remember");
  const answer = await model.invoke([first]);
  const next = new HumanMessage('scenario: text {"text": "As said."}');
  expect((await model.invoke([first, answer, next])).content).toBe("As said.");
  expect(lastAsked(scene.model)).toContain("do the work, and remember");
  expect(lastAsked(scene.model)).not.toContain("begun elsewhere");
});

test("a failure in the middle of a stream is thrown, after what came before", async () => {
  let content = "";
  const reading = async (): Promise<void> => {
    for await (const chunk of await agent().stream("fail with 500 after a tool")) content += chunk.text;
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
  const error = await agent(options)
    .invoke(says)
    .then(() => null)
    .catch((reason: unknown) => reason);
  expect(error).toMatchObject(told);
  expect(wire.exchanges).toHaveLength(1);
});

test("an answer that is aborted frees the agent, and the conversation continues", async () => {
  const model = agent({ conversation: "left" });
  const leaving = new AbortController();
  const reading = async (): Promise<void> => {
    for await (const chunk of await model.stream("write slowly", { signal: leaving.signal }))
      if (chunk.additional_kwargs["reasoning_content"] !== undefined) leaving.abort();
  };
  await expect(reading()).rejects.toThrow(/abort/i);
  await untilIdle(scene);
  const next = await model.invoke('scenario: text {"text": "Here I am."}');
  expect(next.content).toBe("Here I am.");
});

test("an answer that is aborted while a tool runs ends the tool", async () => {
  const model = agent({ conversation: "left in a tool" });
  const leaving = new AbortController();
  const pidFile = join(await temporaryDirectory(), "pid");
  const command = JSON.stringify({ command: `echo $$ > ${pidFile}; exec sleep 600` });
  const asked = model.invoke(`scenario: bash ${command}`, { signal: leaving.signal });
  const rejected = asked.then(() => null).catch((reason: unknown) => reason);
  const pid = await until(async () => Number(await readFile(pidFile, "utf8")), { what: "the tool to run" });
  expect(isRunning(pid)).toBe(true);
  leaving.abort();
  expect(String(await rejected)).toMatch(/abort/i);
  await until(() => !isRunning(pid), { what: "the tool to be gone" });
  await untilIdle(scene);
  const next = await model.invoke('scenario: text {"text": "Here I am."}');
  expect(next.content).toBe("Here I am.");
});
