import { afterAll, beforeAll, expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { message, text } from "./answer.ts";
import { type FakeModel, startFakeModel } from "./fake-model.ts";
import { runClaude } from "./run-claude.ts";

let model: FakeModel;
let home: string;
let cwd: string;

beforeAll(async () => {
  model = await startFakeModel();
  home = await temporaryDirectory();
  cwd = await temporaryDirectory();
});
afterAll(() => model.close());

const claude = (prompt: string) => runClaude(prompt, { url: model.url, home, cwd });

/** The text that came by deltas of this kind. */
const streamed = (events: Awaited<ReturnType<typeof claude>>["events"], kind: "text" | "thinking") =>
  events
    .flatMap(({ event }) => (event as { delta?: Record<string, string> } | undefined)?.delta?.[kind] ?? [])
    .join("");

test("text and thinking reach the real CLI delta by delta, unharmed", async () => {
  const { code, events, result } = await claude(
    'scenario: thinking {"thinking": "Hm… 🤔", "text": "Grüße 🚀 “ok”", "deltaLength": 1}',
  );
  expect(code).toBe(0);
  expect(result).toMatchObject({
    is_error: false,
    subtype: "success",
    num_turns: 1,
    result: "Grüße 🚀 “ok”",
    stop_reason: "end_turn",
  });
  expect(streamed(events, "text")).toBe("Grüße 🚀 “ok”");
  expect(streamed(events, "thinking")).toBe("Hm… 🤔");
  expect(model.requests.at(-1)?.headers.authorization).toBe("Bearer token-of-the-test");
});

test("a rate limit says when it ends", async () => {
  const before = Date.now() / 1000;
  const answer = await ask("error", { status: 429, retryAfter: 7, resetsIn: 3600 });
  expect(answer.status).toBe(429);
  expect(answer.headers.get("retry-after")).toBe("7");
  expect(Number(answer.headers.get("anthropic-ratelimit-unified-reset"))).toBeGreaterThan(before + 3590);
  expect(await answer.json()).toMatchObject({ type: "error", error: { type: "rate_limit_error" } });
});

test.for([
  {
    scenario: "broken_tool",
    code: 1,
    result: { is_error: true, result: expect.stringContaining("mid-response") },
  },
  { scenario: "max_tokens", code: 0, result: { is_error: false, result: " goes." } },
])("scenario $scenario ends as the CLI ends it with a real model", async ({ scenario, code, result }) => {
  const run = await claude(`scenario: ${scenario}`);
  expect(run.result).toMatchObject(result);
  expect(run.code).toBe(code);
});

test("a mistake in the scenario's name or parameters is an error", async () => {
  const unknown = await ask("nonsense", {});
  expect(unknown.status).toBe(400);
  expect(await unknown.text()).toContain("there is no scenario nonsense; there are auto, code,");
  expect(await (await ask("text", { txet: "x" })).text()).toContain("txet");
});

test("a model that wants a token refuses every other, and counts tokens for those who have it", async () => {
  await using strict = await startFakeModel({ token: "right" });
  const count = (headers: Record<string, string>) =>
    fetch(`${strict.url}/v1/messages/count_tokens`, {
      method: "POST",
      headers,
      body: JSON.stringify({ messages: [] }),
    });
  expect((await count({})).status).toBe(401);
  expect((await count({ "x-api-key": "wrong" })).status).toBe(401);
  expect((await count({ "x-api-key": "right" })).status).toBe(200);
  expect(await (await count({ authorization: "Bearer right" })).json()).toEqual({
    input_tokens: expect.any(Number),
  });
  expect(strict.requests).toHaveLength(4);
});

test("a script of the test answers before the scenarios, for as long as it is kept", async () => {
  const said = async (words: string) => await (await ask("text", { text: words })).text();
  {
    using _ = model.script(({ prompt }) => (prompt.includes("Hello") ? message([text("Scripted.")]) : null));
    expect(await said("Hello")).toContain('"text":"Scripted."');
    expect(await said("Other.")).toContain('"text":"Other."');
  }
  expect(await said("Hello")).toContain('"text":"Hello"');
});

test("slow tokens come at their rate, a stall leaves the stream open, and closing ends it", async () => {
  await using slow = await startFakeModel();
  const begin = performance.now();
  await (await ask("text", { text: "abcde", deltaLength: 1, rate: 20 }, slow.url)).text();
  expect(performance.now() - begin).toBeGreaterThan(190);

  const stalled = await ask("stall", { after: 1 }, slow.url);
  const reader = stalled.body?.pipeThrough(new TextDecoderStream()).getReader();
  let seen = "";
  while (!seen.includes(": interrupted")) seen += (await reader?.read())?.value ?? "";
  expect(seen.match(/content_block_delta/g)).toHaveLength(2);
  await slow.close();
  await expect(reader?.read()).rejects.toThrow("terminated");
});

/** A streaming request without the CLI. */
const ask = (scenario: string, parameters: unknown, url = model.url) =>
  fetch(`${url}/v1/messages?beta=true`, {
    method: "POST",
    body: JSON.stringify({
      model: "m",
      stream: true,
      messages: [{ role: "user", content: `scenario: ${scenario} ${JSON.stringify(parameters)}` }],
    }),
  });
