import { afterEach, beforeAll, expect, test } from "vitest";
import { askedOf, key, lastAsked, startScene, type Scene } from "./scene.ts";
import { work, workContent } from "./scripted.ts";
import { dataOf, checkWire, recordingFetch, type Exchange } from "./wire.ts";

/** What chat UIs and gateways send, as read in their sources, to the service with the real agent CLI. */
let scene: Scene;
let wire = recordingFetch();
beforeAll(async () => {
  scene = await startScene();
});
afterEach(() => {
  checkWire(wire.exchanges);
  wire = recordingFetch();
});

type Json = Record<string, unknown>;

const send = async (body: Json, headers: Record<string, string> = {}): Promise<Exchange> => {
  const response = await wire.fetch(`${scene.baseURL}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "default", ...body }),
  });
  await response.text();
  const [exchange] = wire.exchanges.slice(-1);
  if (exchange?.status !== 200) throw new Error(`${exchange?.status} ${exchange?.text}`);
  return exchange;
};

/** What the UI shows of a stream or of a whole answer. */
const shown = (exchange: Exchange): string => {
  const isStream = exchange.answered.get("content-type")?.startsWith("text/event-stream") === true;
  const objects = isStream ? dataOf(exchange).filter((line) => line !== "[DONE]") : [exchange.text];
  type Choice = { delta?: { content?: string }; message?: { content: string } };
  return objects
    .flatMap((line) => (JSON.parse(line) as { choices: Choice[] }).choices)
    .map(({ delta, message }) => delta?.content ?? message?.content ?? "")
    .join("");
};
const user = (content: unknown) => ({ role: "user", content });
const textOf = (text: string) => `scenario: text ${JSON.stringify({ text })}`;

/** An Open WebUI that forwards who asks. */
const openWebUi = (chat: string) => ({
  accept: "*/*",
  "x-openwebui-user-name": "J%C3%BCrgen%20M",
  "x-openwebui-user-id": "7a0c9f9e-1f6e-4a52-9a44-0c8f3f2f1d11",
  "x-openwebui-user-email": "user@example.com",
  "x-openwebui-user-role": "user",
  "x-openwebui-chat-id": chat,
  "x-openwebui-message-id": "5d1f8a8e-5b0e-4b9e-8a53-6f1a6d1f0a01",
});
const openWebUiBody = (messages: unknown[]) => ({
  stream: true,
  stream_options: { include_usage: true },
  messages: [{ role: "system", content: "You are of the marketing team." }, ...messages],
  temperature: 0.7,
  max_tokens: 4096,
  tools: [],
  user: { name: "Jürgen M", id: "7a0c9f9e", email: "user@example.com", role: "user" },
});

const sideRequest = (task: string, output: string) => ({
  stream: false,
  max_completion_tokens: 1000,
  messages: [
    user(
      `### Task:\n${task}\n### Guidelines:\n- Write in the chat's primary language.\n### Output:\nJSON format: ${output}\n### Chat History:\n<chat_history>\nUSER: do the work on the quarterly report please\nASSISTANT: Done.\n</chat_history>`,
    ),
  ],
});

test("Open WebUI: the chat is a conversation; its title, tags and follow-ups never reach the agent", async () => {
  const headers = openWebUi("chat-1");
  const first = await send(openWebUiBody([user("do the work")]), headers);
  expect(shown(first)).toBe(workContent(scene.file));
  expect(first.answered.get("x-service-conversation-source")).toBe("header");
  expect(first.answered.get("x-conversation-id")).toBe("chat-1");
  expect(first.answered.get("x-service-ignored-params")).toBe("temperature, max_tokens, user");
  expect(lastAsked(scene.model)).toContain("You are of the marketing team.");

  const asked = askedOf(scene.model).length;
  const title = sideRequest("Generate a concise, 3-5 word title with an emoji.", '{ "title": "your title" }');
  const tags = sideRequest("Generate 1-3 broad tags categorizing the main themes.", '{ "tags": ["tag1"] }');
  const followUps = sideRequest(
    "Suggest 3-5 relevant follow-up questions.",
    '{ "follow_ups": ["Question 1?"] }',
  );
  expect(JSON.parse(shown(await send(title, headers)))).toEqual({ title: "do the work on the quarterly" });
  expect(JSON.parse(shown(await send(tags, headers)))).toEqual({ tags: ["General"] });
  expect(JSON.parse(shown(await send(followUps, headers)))).toEqual({ follow_ups: [] });
  expect(askedOf(scene.model)).toHaveLength(asked);

  const history = [user("do the work"), { role: "assistant", content: shown(first) }];
  const next = await send(openWebUiBody([...history, user(textOf("And on."))]), headers);
  expect(shown(next)).toBe("And on.");
  expect(lastAsked(scene.model)).toContain("Now I count its letters.");
  expect(lastAsked(scene.model)).not.toContain("### Task:");
  expect(lastAsked(scene.model)).not.toContain("begun elsewhere");
});

test("LiteLLM: the public layout of the usage, and its own parameters do no harm", async () => {
  const answer = await send(
    {
      messages: [{ role: "developer", content: "Be brief." }, user("do the work, for the gateway")],
      stream: true,
      stream_options: { include_usage: true },
      max_completion_tokens: 1024,
      reasoning_effort: "minimal",
      metadata: { trace_id: "1", tags: "a,b" },
      extra_body: {},
      drop_params: true,
    },
    {
      accept: "application/json",
      "user-agent": "AsyncOpenAI/Python 2.8.0",
      "x-stainless-lang": "python",
      "x-stainless-async": "async:asyncio",
      "x-stainless-read-timeout": "600.0",
      "x-stainless-retry-count": "0",
    },
  );
  expect(shown(answer)).toBe(workContent(scene.file));
  const lines = dataOf(answer);
  expect(lines.at(-1)).toBe("[DONE]");
  const [stop, usage] = lines.slice(-3, -1).map((line) => JSON.parse(line) as Json);
  expect(stop).toMatchObject({ choices: [{ delta: {}, finish_reason: "stop" }] });
  expect(usage).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
  expect(answer.text).toContain(JSON.stringify(work.thoughts[0]?.slice(0, 12)));
});
