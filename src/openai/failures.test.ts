import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { ServiceError, type ErrorCode } from "../contract/errors.ts";
import { saying, startDoor } from "./openai.fixture.ts";

const door = await startDoor();

const raw = async (path: string, init: RequestInit = {}) => {
  const answer = await fetch(door.url + path, init);
  const { error } = (await answer.json()) as { error: { code: string; type: string; message: string } };
  return { status: answer.status, headers: answer.headers, ...error };
};

test("what has nothing to do with the body is reported in the public shape too", async () => {
  expect(await raw("/v1/nothing")).toMatchObject({
    status: 404,
    code: "not_found",
    type: "invalid_request_error",
  });
  const method = await raw("/v1/chat/completions");
  expect(method).toMatchObject({ status: 405, code: "method_not_allowed" });
  expect(method.headers.get("allow")).toBe("POST, OPTIONS");
  const plain = { method: "POST", body: "{}", headers: { "content-type": "text/plain" } };
  expect(await raw("/v1/chat/completions", plain)).toMatchObject({
    status: 400,
    code: "unsupported_content_type",
  });
  const foreign = { headers: { origin: "https://evil.example" } };
  expect(await raw("/v1/models", foreign)).toMatchObject({ status: 403, type: "permission_error" });
  expect(await raw("/v1/%ff")).toMatchObject({ status: 400, code: "invalid_request" });
  expect(await raw("/v1/chat/completions/chatcmpl-other/cancel", { method: "POST" })).toMatchObject({
    status: 404,
    message: expect.stringContaining('No answer "chatcmpl-other" of yours'),
  });
  for (const header of ["x-conversation-id", "x-user-id"])
    expect(await (await door.post(saying("hi"), { [header]: "x".repeat(257) })).json()).toMatchObject({
      error: { message: `${header}: must have 1 to 256 printable characters` },
    });
});

test("beyond 20 MiB a body is refused; other paths keep their limit and their shape", async () => {
  const socket = connect(door.port, "127.0.0.1");
  const head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 20971521";
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\n${head}\r\n\r\n`);
  const answer = await text(socket);
  expect(answer).toMatch(/^HTTP\/1.1 413 [^]*\r\nconnection: close\r\n/);
  expect(JSON.parse(answer.split("\r\n\r\n")[1] ?? "")).toMatchObject({
    error: { type: "invalid_request_error", code: "body_too_large" },
  });
  const job = await fetch(`${door.url}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ task: "x".repeat(1_048_576) }),
  });
  expect(await job.json()).toMatchObject({ success: false, code: "body_too_large" });
});

test("without a key the body is that of every path", async () => {
  const keyed = await startDoor({ apiKeys: ["one key"] });
  for (const path of ["/v1/models", "/v1/nothing"]) {
    const answer = await fetch(keyed.url + path);
    expect([answer.status, await answer.text()]).toEqual([401, '{"error":"Invalid or missing API key"}']);
  }
  const known = await fetch(`${keyed.url}/v1/models`, { headers: { authorization: "Bearer one key" } });
  expect(known.status).toBe(200);
});

test("in a service without agent mode each path says what is missing", async () => {
  const off = await startDoor({ chat: null });
  const looked = await Promise.all(
    ["/v1/models", "/v1/chat/completions"].map((path) => fetch(off.url + path)),
  );
  for (const answer of [await off.post(saying("hi")), ...looked]) {
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({
      error: { message: expect.stringContaining("AGENT_MODE=true") },
    });
  }
  const completion = await fetch(`${off.url}/completions`);
  expect([completion.status, await completion.json()]).toEqual([
    404,
    {
      success: false,
      code: "not_found",
      error: "GET /completions is part of agent mode, which is off; start the service with AGENT_MODE=true",
    },
  ]);
  const { paths } = (await (await fetch(`${off.url}/openapi.json`)).json()) as { paths: object };
  expect(Object.keys(paths).filter((path) => /completions|\/v1\//.test(path))).toEqual([]);
});

type Told = [code: ErrorCode, status: number, type: string, again: string | null];

test.each<Told>([
  ["model_not_found", 404, "invalid_request_error", null],
  ["conversation_busy", 409, "invalid_request_error", null],
  ["turn_cancelled", 409, "invalid_request_error", "false"],
  ["model_rate_limited", 429, "rate_limit_error", "false"],
  ["agent_failed", 500, "server_error", "false"],
  ["agent_crashed", 500, "server_error", "false"],
  ["max_turns_reached", 500, "server_error", "false"],
  ["max_budget_reached", 500, "server_error", "false"],
  ["model_failed", 502, "server_error", "false"],
  ["capacity_full", 503, "server_error", null],
  ["draining", 503, "server_error", null],
  ["turn_timeout", 504, "server_error", "false"],
])(
  "%s of the chat is a %i, and client libraries are told whether to ask again",
  async (code, status, type, again) => {
    const failing = await startDoor({
      chat: {
        begin: () => Promise.reject(new ServiceError(code, "It did not work", { retryAfter: 7 })),
      },
    });
    const answer = await failing.post(saying("hi", { stream: true }));
    expect(answer.status).toBe(status);
    expect(answer.headers.get("x-should-retry")).toBe(again);
    expect(answer.headers.get("retry-after")).toBe([429, 503].includes(status) ? "7" : null);
    expect(await answer.json()).toEqual({
      error: { message: "It did not work", type, param: code === "model_not_found" ? "model" : null, code },
    });
  },
);

test("a bug is reported without its details, and logged under the request's id", async () => {
  const broken = await startDoor({
    chat: { begin: () => Promise.reject(new TypeError("secret detail")) },
  });
  const answer = await broken.post(saying("hi"));
  const told = await answer.text();
  expect([answer.status, told.includes("secret")]).toEqual([500, false]);
  expect(JSON.parse(told)).toMatchObject({ error: { type: "server_error", code: "internal" } });
  expect(told).toContain(answer.headers.get("x-request-id"));
  expect(broken.lines.find(({ level }) => level === "error")).toMatchObject({
    request_id: answer.headers.get("x-request-id"),
  });
});
