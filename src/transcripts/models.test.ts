import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { startTools, talk, token } from "./handlers.fixture.ts";
import { createModels } from "./models.ts";
import { append, assistantLine, lines, userLine } from "./transcript-index.fixture.ts";

type Asked = {
  url: string;
  key: string | undefined;
  body: { model: string; input: string[]; messages: { content: string }[] };
};

/** The two endpoints. A vector counts words; `behaviour` is what it does instead of answering. */
const startEndpoint = async () => {
  const asked: Asked[] = [];
  const state: { behaviour: "good" | "hang" | "redirect" | "garbage" | 401 | 500 } = { behaviour: "good" };
  const words = ["otter", "boat", "tax", "***"];
  const vector = (text: string) => [0.01, ...words.map((word) => text.toLowerCase().split(word).length - 1)];
  const server = createServer((request, response) => void answer(request, response));
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Asked["body"];
    asked.push({ url: request.url ?? "", key: request.headers.authorization, body });
    const { behaviour } = state;
    if (behaviour === "hang") return;
    if (behaviour === "redirect")
      return void response.writeHead(307, { location: "http://127.0.0.1:9/" }).end();
    if (typeof behaviour === "number") return void response.writeHead(behaviour).end("no");
    if (behaviour === "garbage") return void response.end("<html>");
    const data = body.input?.map((text, index) => ({ index, embedding: vector(text) })).toReversed();
    const choices = [{ message: { role: "assistant", content: `It was about otters. ${token}` } }];
    response.end(JSON.stringify(request.url === "/v1/embeddings" ? { data } : { choices }));
  };
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterFile(() => (server.closeAllConnections(), server.close()));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const models = (embed = "embed-1") =>
    createModels({ llmBase: base, llmKey: "key-1", llmEmbedModel: embed, llmChatModel: "chat-1" });
  return { asked, state, models, texts: () => asked.flatMap(({ body }) => body.input ?? []) };
};

test("search_semantic finds the passage nearest in meaning, one for each session", async () => {
  const endpoint = await startEndpoint();
  const { ask, session } = await startTools({ models: endpoint.models() });
  await session("s1", ...talk(2), userLine("An otter, an otter"), assistantLine("in a boat"));
  await session("s2", userLine("tax and boat"));
  const answer = await ask("search_semantic", { query: "otter" });
  expect(answer).toMatchObject({
    mode: "semantic",
    count: 2,
    matches: [
      { session_id: "s1", chunk_idx: 4, project: "/home/ana/app", text_preview: "An otter, an otter" },
      { session_id: "s2" },
    ],
  });
  expect(answer.matches[0]?.score).toBeGreaterThan(0.8);
  expect(await ask("search_semantic", { query: "otter", project: "nowhere" })).toMatchObject({ count: 0 });
  expect(endpoint.asked[0]).toMatchObject({
    url: "/v1/embeddings",
    key: "Bearer key-1",
    body: { model: "embed-1" },
  });
});

test("vectors are made once, anew for what a session grew by, and for another model", async () => {
  const endpoint = await startEndpoint();
  const { ask, session, index } = await startTools({ models: endpoint.models() });
  const source = await session("s1", ...talk(3));
  const made = async (): Promise<number> => {
    const before = endpoint.texts().length;
    await ask("search_semantic", { query: "otter" });
    return endpoint.texts().length - before - 1;
  };
  expect([await made(), await made()]).toEqual([3, 0]);
  await append(index, source, lines(userLine("a boat")));
  expect([await made(), await made()]).toEqual([1, 0]);
  const other = await startTools({ models: endpoint.models("embed-2") });
  await other.session("s1", ...talk(3));
  const before = endpoint.texts().length;
  await other.ask("search_semantic", { query: "otter" });
  expect(endpoint.texts().length - before).toBe(4);
  await index.remove([source.id]);
  expect(await ask("search_semantic", { query: "otter" })).toMatchObject({ count: 0 });
});

test("a search that cannot make all vectors in its time says how many are left", async () => {
  const endpoint = await startEndpoint();
  const { ask, session, clock } = await startTools({ models: endpoint.models() });
  for (const id of ["s1", "s2", "s3"]) await session(id, userLine("otter"));
  const { now } = clock;
  let looks = 0;
  Object.defineProperty(clock, "now", { get: () => now + (looks += 1) * 9000 });
  const answer = await ask("search_semantic", { query: "otter" });
  expect(answer).toMatchObject({
    count: 2,
    hint: expect.stringContaining("1 of 3 sessions are not searched yet"),
  });
  expect(await ask("search_semantic", { query: "otter" })).toMatchObject({ count: 3 });
});

test("the model sees no secret, not even without BRIDGE_REDACT", async () => {
  const endpoint = await startEndpoint();
  const { ask, session } = await startTools({ models: endpoint.models(), redact: false });
  await session("s1", userLine(`${"x".repeat(980)} ${token}`), userLine(token));
  await ask("search_semantic", { query: `where is ${token}` });
  await ask("generate_summary", { session_id: "s1" });
  expect(endpoint.asked.length).toBeGreaterThan(2);
  expect(JSON.stringify(endpoint.asked)).not.toContain(token.slice(0, 8));
});

test("generate_summary sends the beginning and the end of a session, and masks the answer", async () => {
  const endpoint = await startEndpoint();
  const { ask, session } = await startTools({ models: endpoint.models() });
  await session("s1", ...talk(100, "w".repeat(5000)));
  expect(await ask("generate_summary", { session_id: "s1" })).toMatchObject({
    summary: "It was about otters. ***",
    model: "chat-1",
  });
  const sent = endpoint.asked[0]?.body.messages.at(-1)?.content ?? "";
  expect(sent).toMatch(/^<(transcript-[0-9a-f]{16})>\n[^]*\n<\/\1>$/);
  expect(sent).toContain("question 0 ");
  expect(sent).toContain("answer 99 ");
  expect(sent).not.toContain("question 50 ");
  expect(sent.length).toBeLessThan(40_000);
});

test.each([
  [401, "check LLM_API_KEY"],
  [500, "answered 500"],
  ["garbage", "something else than OpenAI's format"],
  ["redirect", "cannot be reached"],
] as const)("an endpoint that answers with %s is model_failed", async (behaviour, words) => {
  const endpoint = await startEndpoint();
  endpoint.state.behaviour = behaviour;
  const { ask, session } = await startTools({ models: endpoint.models() });
  await session("s1", userLine("otter"));
  for (const attempt of [
    () => ask("search_semantic", { query: "otter" }),
    () => ask("generate_summary", { session_id: "s1" }),
  ])
    await expect(attempt()).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringContaining(words),
    });
});

test("a caller who leaves does not wait for a model that hangs", async () => {
  const endpoint = await startEndpoint();
  endpoint.state.behaviour = "hang";
  const { ask } = await startTools({ models: endpoint.models() });
  const signal = AbortSignal.timeout(50);
  await expect(ask("search_semantic", { query: "otter" }, { signal })).rejects.toThrow(/timeout/);
});
