import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, test } from "vitest";
import { saying, startDoor } from "./openai.fixture.ts";

const door = await startDoor();
let withoutAgent: ReturnType<typeof startDoor> | undefined;
/** The door of a service without agent mode. */
const off = () => (withoutAgent ??= startDoor({ chat: null }));
const get = (path: string, init: RequestInit = {}) => fetch(door.url + path, init);

test.each(["sonnet", "openrouter%2Fglm:free", "openrouter%2fglm%3Afree"])("model %s is there", async (id) => {
  expect(await (await get(`/v1/models/${id}`)).json()).toMatchObject({ id: decodeURIComponent(id) });
});

test("a model that is not there is a 404 that names the way out", async () => {
  const answer = await get("/v1/models/gpt%22");
  expect([answer.status, await answer.json()]).toEqual([
    404,
    {
      error: {
        message: String.raw`There is no model "gpt\""; GET /v1/models lists them`,
        type: "invalid_request_error",
        param: "model",
        code: "model_not_found",
      },
    },
  ]);
});

test.each([
  ...["/v1/responses", "/v1/messages", "/v1/completions", "/chat/completions", "/v1/v1/chat/completions"].map(
    (path) => ["POST", path, "POST /v1/chat/completions"] as const,
  ),
  ["POST", "/v1/messages/count_tokens", "POST /v1/chat/completions"],
  ["POST", "/api/chat", "POST /v1/chat/completions"],
  ["GET", "/models", "GET /v1/models"],
  ["GET", "/models/sonnet", "GET /v1/models"],
  ["GET", "/api/tags", "GET /v1/models"],
] as const)("%s %s of another API is a 404 that names %s", async (method, path, ours) => {
  for (const { url } of [door, await off()]) {
    const answer = await fetch(url + path, { method, headers: { origin: "http://localhost:3000" } });
    // A page may read it too.
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([
      404,
      "http://localhost:3000",
    ]);
    expect(await answer.json()).toMatchObject({
      error: { message: `There is no such address here; use ${ours}`, code: "not_found" },
    });
  }
});

test("an answer under way is cancelled by its id", async () => {
  const answer = await get("/v1/chat/completions/chatcmpl-running/cancel", { method: "POST" });
  expect([answer.status, await answer.json()]).toEqual([
    200,
    { id: "chatcmpl-running", object: "chat.completion.cancelled", cancelled: true },
  ]);
});

test("pages of this machine may ask with the headers of their client libraries, and read every answer", async () => {
  const origin = "http://localhost:3000";
  const asked = [
    ..."authorization content-type x-stainless-lang x-conversation-id openai-organization user-agent".split(
      " ",
    ),
    ..."dangerously-allow-browser traceparent cache-control baggage".split(" "),
  ];
  for (const path of [
    "/v1/chat/completions",
    "/v1/models",
    "/v1/models/x",
    "/v1/chat/completions/x/cancel",
  ]) {
    const { status, headers } = await get(path, {
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": `${asked.join(",")},a b`,
      },
    });
    expect([status, headers.get("access-control-allow-origin")]).toEqual([204, origin]);
    const allowed = headers.get("access-control-allow-headers")?.toLowerCase().split(", ");
    expect(allowed).toEqual(asked);
  }
  const answers = [
    await door.post(saying("hi"), { origin }),
    await door.post(saying("hi", { n: 2 }), { origin }),
    await get("/v1/nothing", { headers: { origin } }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 400, 404]);
  for (const { headers } of answers) {
    expect(headers.get("access-control-allow-origin")).toBe(origin);
    expect(headers.get("access-control-expose-headers")).toContain("X-Conversation-Id");
  }
  const elsewhere = await door.post(saying("hi"), { origin: "https://evil.example" });
  expect([elsewhere.status, elsewhere.headers.get("access-control-allow-origin")]).toEqual([403, null]);
});

test("the OpenAPI document describes them, and stays valid", async () => {
  const text = await (await get("/openapi.json")).text();
  const result = await new Validator().validate(JSON.parse(text) as Record<string, unknown>);
  expect([result.valid, result.errors]).toEqual([true, undefined]);
  const { paths } = JSON.parse(text) as { paths: Record<string, Record<string, { tags: string[] }>> };
  expect(paths["/v1/chat/completions"]?.["post"]).toMatchObject({
    tags: ["Agent mode"],
    responses: {
      "200": { content: { "text/event-stream": { example: expect.stringContaining("data: [DONE]") } } },
      "503": { description: expect.stringContaining("capacity_full") },
    },
  });
  expect(Object.keys(paths)).toEqual(
    expect.arrayContaining(["/v1/models", "/v1/models/{id}", "/v1/chat/completions/{id}/cancel"]),
  );
});
