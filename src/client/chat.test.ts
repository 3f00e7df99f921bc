import { describe, expect, test } from "vitest";
import {
  answer,
  chatStub,
  hanging,
  refusal,
  role,
  stop,
  text,
  type Reply,
} from "../../test/cli/chat-stub.ts";
import { json, stubService } from "../../test/cli/stub-service.ts";
import { until } from "../../test/until.ts";
import type { ChatChunk } from "./chat.ts";
import { createClient } from "./client.ts";
import { ClientError } from "./client-error.ts";

const body = { model: "agent", messages: [{ role: "user" as const, content: "Hi" }] };

const scene = async (reply: Reply) => {
  const stub = await chatStub();
  stub.reply = reply;
  return { stub, client: createClient({ baseUrl: `http://127.0.0.1:${stub.port}` }) };
};

/** What came, and how it ended. */
const outcome = async (chunks: AsyncIterable<ChatChunk>) => {
  const seen: ChatChunk[] = [];
  try {
    for await (const each of chunks) seen.push(each);
  } catch (error) {
    return { seen, error };
  }
  return { seen, error: null };
};

describe("a chat", () => {
  test("gives the chunks as they are and ends with the answer", async () => {
    const { stub, client } = await scene(answer(text("größer ✓")));
    const headers = { "x-conversation-id": "c-1" };
    const { seen, error } = await outcome(client.chat({ body, headers }));
    expect({ seen, error }).toEqual({ seen: [role, text("größer ✓"), stop], error: null });
    expect(stub.asked()).toEqual([{ ...body, stream: true }]);
    expect(stub.requests[0]?.headers).toMatchObject({
      "x-conversation-id": "c-1",
      accept: "text/event-stream",
    });
  });

  test("gives each chunk when it comes", async () => {
    const { client } = await scene(hanging(text("a")));
    const chunks = client.chat({ body });
    expect((await chunks.next()).value).toEqual(role);
    expect((await chunks.next()).value).toEqual(text("a"));
    await chunks.return();
  });

  test("that is refused rejects with status, code, sentence and when to ask again", async () => {
    const { client } = await scene(
      refusal(503, "capacity_full", "All places are taken", { "retry-after": "7" }),
    );
    const { error } = await outcome(client.chat({ body }));
    expect(error).toBeInstanceOf(ClientError);
    expect(error).toMatchObject({
      status: 503,
      code: "capacity_full",
      message: "All places are taken",
      retryAfter: 7,
    });
  });

  test.each([
    ["the service's own", { error: "Invalid or missing API key" }],
    ["the public", { error: { message: "no", type: "auth", param: null, code: "invalid_api_key" } }],
  ])("without the key asks for it, in %s format of the refusal", async (_what, refused) => {
    const stub = await stubService({ "POST /v1/chat/completions": json(401, refused) });
    const client = createClient({ baseUrl: `http://127.0.0.1:${stub.port}` });
    const { error } = await outcome(client.chat({ body }));
    expect(error).toMatchObject({ status: 401, code: "unauthorized" });
    expect(String(error)).toContain("set SERVICE_API_KEY");
  });

  test("that fails in mid-stream gives what came, then the failure", async () => {
    const failure = {
      error: { message: "The model is away", type: "api_error", param: null, code: "model_failed" },
    };
    const { client } = await scene((write, response) => {
      for (const each of [role, text("a"), failure, "[DONE]"]) write(each);
      response.end();
    });
    const { seen, error } = await outcome(client.chat({ body }));
    expect(seen).toEqual([role, text("a")]);
    expect(error).toMatchObject({ status: 200, code: "model_failed", message: "The model is away" });
  });

  test.each<[string, Reply]>([
    ["breaks off", (write, response) => (write(role), response.write("x", () => response.destroy()))],
    ["ends before it is complete", (write, response) => (write(role), write(stop), response.end())],
  ])("whose connection %s is not taken for complete", async (_what, reply) => {
    const { client } = await scene(reply);
    const { seen, error } = await outcome(client.chat({ body }));
    expect(seen[0]).toEqual(role);
    expect(error).toMatchObject({ status: 0, code: "no_answer" });
    expect(String(error)).toContain("broke off the connection");
  });

  test.each<[string, Reply]>([
    [
      "a page",
      (_write, response) => void response.writeHead(200, { "content-type": "text/html" }).end("<p>"),
    ],
    ["a stream of something else", (write) => write({ hello: 1 })],
    ["a stream of no JSON", (write) => write("<p>")],
  ])("that %s answers is told to come from somebody else", async (_what, reply) => {
    const { client } = await scene(reply);
    const { error } = await outcome(client.chat({ body }));
    expect(error).toMatchObject({ code: "not_the_service" });
  });

  test("that is aborted rejects with the caller's reason, and the service notices", async () => {
    const { stub, client } = await scene(hanging(text("a")));
    const abort = new AbortController();
    const ended = outcome(client.chat({ body, signal: abort.signal }));
    await until(() => stub.asked().length === 1);
    abort.abort(new Error("enough"));
    expect((await ended).error).toMatchObject({ message: "enough" });
    await until(() => stub.gone === 1);
  });

  test("that nobody reads on is closed", async () => {
    const { stub, client } = await scene(hanging());
    for await (const each of client.chat({ body })) {
      expect(each).toEqual(role);
      break;
    }
    await until(() => stub.gone === 1);
  });
});

test("the models are those of the service", async () => {
  const { client } = await scene(answer());
  expect(await client.chatModels()).toEqual([{ id: "agent" }, { id: "haiku" }]);
});

test("a turn is cancelled by its id", async () => {
  const { stub, client } = await scene(answer());
  await client.cancelChat("chatcmpl-1");
  expect(stub.requests.map(({ method, url }) => `${method} ${url}`)).toEqual([
    "POST /v1/chat/completions/chatcmpl-1/cancel",
  ]);
  await expect(client.cancelChat("a/b")).rejects.toMatchObject({ status: 404 });
});
