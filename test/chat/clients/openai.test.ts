import { inspect } from "node:util";
import OpenAI, { APIConnectionError, APIError, APIUserAbortError } from "openai";
import { afterEach, beforeAll, expect, test } from "vitest";
import { key, startScene, untilIdle, askedOf, lastAsked, type Scene } from "./scene.ts";
import { work, workContent } from "./scripted.ts";
import { dataOf, checkWire, recordingFetch } from "./wire.ts";
import { until } from "../../until.ts";

/**
 * The client library `openai` against the service with the real agent CLI. All but a few turns are of one conversation: one
 * process. In one a file that is read again is told to be as it was.
 */
let scene: Scene;
let wire = recordingFetch();
beforeAll(async () => {
  scene = await startScene({ AGENT_MODE_MAX_CONCURRENT: "2" });
});
afterEach(() => checkWire(wire.exchanges));

const client = (options: ConstructorParameters<typeof OpenAI>[0] = {}): OpenAI => {
  wire = recordingFetch();
  const defaultHeaders = { "X-Conversation-Id": "one" };
  return new OpenAI({ baseURL: scene.baseURL, apiKey: key, fetch: wire.fetch, defaultHeaders, ...options });
};
const saying = (content: string) => ({ model: "default", messages: [{ role: "user" as const, content }] });
const alone = (id: number) => ({ headers: { "X-Conversation-Id": `alone-${id}` } });
const reasoningOf = (from: object): string =>
  "reasoning_content" in from ? String(from.reasoning_content) : "";

/** The error that a promise is rejected with. */
const errorOf = async (promise: Promise<unknown>): Promise<APIError> => {
  const error = await promise.then(() => null).catch((reason: unknown) => reason);
  if (error instanceof APIError && !(error instanceof APIConnectionError)) return error;
  throw new Error(`there was no APIError, but ${inspect(error, { depth: 4 })}`, { cause: error });
};

test("the raw stream gives thinking, tools and words in order, no tool calls, and the usage once", async () => {
  const stream = await client().chat.completions.create({ ...saying("do the work"), stream: true });
  const seen = { reasoning: "", content: "", finished: [] as string[], totals: [] as number[], calls: 0 };
  for await (const { choices, usage } of stream) {
    const [choice] = choices;
    seen.content += choice?.delta.content ?? "";
    seen.reasoning += reasoningOf(choice?.delta ?? {});
    seen.calls += choice?.delta.tool_calls?.length ?? 0;
    if (choice?.finish_reason) seen.finished.push(choice.finish_reason);
    if (usage) seen.totals.push(usage.total_tokens);
  }
  expect(seen).toEqual({
    reasoning: work.thoughts.join("\n\n"),
    content: workContent(scene.file),
    finished: ["stop"],
    totals: [expect.any(Number)],
    calls: 0,
  });
  expect(seen.totals[0]).toBeGreaterThan(0);
  const tags = dataOf(wire.exchanges[0] ?? { text: "" }).flatMap(
    (line) => /"x_service_event_type":"(\w+)"/.exec(line)?.[1] ?? [],
  );
  const round = "thinking narration tool_use tool_result";
  expect(tags.filter((tag, index) => tag !== tags[index - 1]).join(" ")).toBe(`${round} ${round} final`);
});

test("the stream helper assembles an answer, with include_usage too", async () => {
  const stream = client().chat.completions.stream({
    ...saying('scenario: thinking {"thinking": "Hm.", "text": "Said and done."}'),
    stream_options: { include_usage: true },
  });
  const final = await stream.finalChatCompletion();
  const [choice] = final.choices;
  expect(choice).toMatchObject({ finish_reason: "stop", message: { content: "Said and done." } });
  expect(choice?.message.tool_calls ?? []).toEqual([]);
  expect(final.usage?.completion_tokens).toBeGreaterThan(0);
  expect(await stream.totalUsage()).toMatchObject({ total_tokens: final.usage?.total_tokens });
});

test("without stream the answer is the same, and says how the conversation was found", async () => {
  const asked = client().chat.completions.create(saying("do the work, whole"), alone(3));
  const { data, response } = await asked.withResponse();
  const [choice] = data.choices;
  expect(choice?.message.content).toBe(workContent(scene.file));
  expect(reasoningOf(choice?.message ?? {})).toBe(work.thoughts.join("\n\n"));
  expect(data.usage?.total_tokens).toBeGreaterThan(0);
  expect(response.headers.get("x-service-conversation-source")).toBe("header");
  expect(response.headers.get("x-conversation-id")).toBe("alone-3");
});

test("models are listed and found", async () => {
  const openai = client();
  const listed = await Array.fromAsync(openai.models.list());
  expect(listed.map(({ id }) => id)).toEqual(expect.arrayContaining(["default", "default:haiku", "sonnet"]));
  expect(await openai.models.retrieve("default:haiku")).toMatchObject({ id: "default:haiku" });
  expect(await errorOf(openai.models.retrieve("gpt-9"))).toMatchObject({
    status: 404,
    code: "model_not_found",
  });
});

test("a stream that is aborted frees the agent, and the conversation continues", async () => {
  const openai = client();
  const stream = await openai.chat.completions.create({ ...saying("write slowly"), stream: true });
  for await (const { choices } of stream)
    if (reasoningOf(choices[0]?.delta ?? {}) !== "") stream.controller.abort();
  await untilIdle(scene);
  const next = await openai.chat.completions.create(saying('scenario: text {"text": "Here I am."}'));
  expect(next.choices[0]?.message.content).toBe("Here I am.");
  expect(lastAsked(scene.model)).toContain("write slowly");
});

test("a request that is aborted before its answer frees the agent", async () => {
  const leaving = new AbortController();
  const asked = errorOf(
    client().chat.completions.create(saying("write slowly, whole"), { signal: leaving.signal }),
  );
  await expect.poll(() => lastAsked(scene.model), { timeout: 60_000 }).toContain("write slowly, whole");
  leaving.abort();
  expect(await asked).toBeInstanceOf(APIUserAbortError);
  await untilIdle(scene);
  expect(scene.service.output.stderr).not.toContain("failed unexpectedly");
  // The abort leaves nothing on the wire to look at.
  await Array.fromAsync(client().models.list());
});

test.each([
  {
    what: "a wrong key",
    options: { apiKey: "wrong" },
    body: saying("hi"),
    error: { status: 401, message: expect.stringContaining("Invalid or missing API key") },
  },
  {
    what: "an unknown model",
    options: {},
    body: { ...saying("hi"), model: "gpt-9" },
    error: { status: 404, code: "model_not_found", param: "model", type: "invalid_request_error" },
  },
])("$what is refused once, streaming or not", async ({ options, body, error }) => {
  for (const stream of [false, true]) {
    const told = await errorOf(client(options).chat.completions.create({ ...body, stream }));
    expect(told).toMatchObject(error);
    expect(wire.exchanges).toHaveLength(1);
  }
});

test.each([
  { status: 401, told: { status: 502, code: "model_credentials", type: "server_error" } },
  { status: 429, told: { status: 429, code: "model_rate_limited", type: "rate_limit_error" } },
  { status: 500, told: { status: 502, code: "model_failed", type: "server_error" } },
])("a model that answers $status is told once as $told.code, streaming or not", async ({ status, told }) => {
  const openai = client();
  const before = askedOf(scene.model).length;
  const whole = await errorOf(openai.chat.completions.create(saying(`fail with ${status}`)));
  expect(whole).toMatchObject(told);
  expect(wire.exchanges).toHaveLength(1);
  const failing = client().chat.completions.stream(saying(`fail with ${status} after a tool`));
  let content = "";
  failing.on("content", (delta) => (content += delta));
  const streamed = await errorOf(failing.finalChatCompletion());
  expect(streamed).toMatchObject({ code: told.code, type: told.type });
  expect(content).toContain("I try it.");
  expect(dataOf(wire.exchanges[0] ?? { text: "" }).at(-1)).toBe("[DONE]");
  // The failure, a tool, and the failure after it.
  expect(askedOf(scene.model).length - before).toBe(3);
});

/** Lets the client wait a tenth of a second where the service says seconds. */
const hurried =
  (record: ReturnType<typeof recordingFetch>["fetch"]): typeof record =>
  async (input, init) => {
    const response = await record(input, init);
    if (!response.headers.has("retry-after")) return response;
    const { status, statusText } = response;
    const headers = new Headers(response.headers);
    headers.set("retry-after-ms", "100");
    return new Response(response.body, { status, statusText, headers });
  };

test("with all places taken the client asks again as it is asked to, until one is free", async () => {
  const takers = await Promise.all(
    [1, 2].map((n) =>
      client().chat.completions.create({ ...saying(`write slowly ${n}`), stream: true }, alone(n)),
    ),
  );
  const recorded = recordingFetch();
  const openai = client({ fetch: hurried(recorded.fetch) });
  wire = recorded;
  expect(await errorOf(openai.chat.completions.create(saying("hi"), { maxRetries: 2 }))).toMatchObject({
    status: 503,
    code: "capacity_full",
  });
  expect(wire.exchanges.map(({ status, answered }) => [status, answered.get("retry-after")])).toEqual(
    Array(3).fill([503, "5"]),
  );
  const patient = openai.chat.completions.create(saying('scenario: text {"text": "At last."}'), {
    maxRetries: 100,
  });
  await until(() => wire.exchanges.length > 4, { what: "the client to have asked again" });
  for (const { controller } of takers) controller.abort();
  expect((await patient).choices[0]?.message.content).toBe("At last.");
  await untilIdle(scene);
});

test("a client that gives up waiting and asks again joins the answer under way", async () => {
  // So that the process is there, and only the model takes its time: two seconds.
  await client().chat.completions.create(saying('scenario: text {"text": "Hi."}'));
  const before = askedOf(scene.model).length;
  const impatient = client({ timeout: 1500, maxRetries: 20 });
  const answer = await impatient.chat.completions.create(saying("take a moment"));
  expect(answer.choices[0]?.message.content).toBe("a moment it was");
  expect(askedOf(scene.model).length - before).toBe(1);
  // On a busy machine it gives up more than once.
  expect(wire.exchanges.map((exchange) => exchange.headers.get("x-stainless-retry-count"))).toEqual([
    expect.stringMatching(/^[1-9]/),
  ]);
});

test("an answer that takes longer than its timeout ends with an error, and is not asked for again", async () => {
  const slow = { ...saying("write slowly, in time"), timeout: 1 };
  expect(await errorOf(client().chat.completions.create(slow))).toMatchObject({
    status: 504,
    code: "turn_timeout",
  });
  expect(wire.exchanges).toHaveLength(1);
});
