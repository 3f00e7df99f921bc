import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import type { ChatTurn } from "../chat/chat.ts";
import { aborted, chunk, saying, startDoor, turnOf } from "./openai.fixture.ts";

const streamed = { stream: true };

/** A turn that goes on until its reader is gone, and says so. */
const endless = (seen: { begun: number; ended: number }, first: Uint8Array = chunk("role")): ChatTurn => {
  const whileRead = async (signal: AbortSignal): Promise<void> => {
    seen.begun += 1;
    await aborted(signal);
    seen.ended += 1;
  };
  return {
    ...turnOf(""),
    stream: async function* (signal) {
      const reading = whileRead(signal);
      yield first;
      await reading;
    },
    whole: async (signal) => {
      await whileRead(signal);
      throw new Error("the reader is gone");
    },
  };
};

test("a whole answer is the chat's JSON, with what is known of the conversation", async () => {
  const door = await startDoor();
  const answer = await door.post(saying("hi"), { "x-request-id": "mine" });
  expect(answer.status).toBe(200);
  expect(await answer.json()).toEqual({ object: "chat.completion", said: "hello" });
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-conversation-id": Buffer.from("chat é", "utf8").toString("latin1"),
    "x-service-conversation-source": "header",
    "x-client-request-id": "mine",
    "x-request-id": expect.stringMatching(/^[\da-f-]{36}$/),
  });
});

test("a stream is passed on as it is, under headers that keep proxies from holding it up", async () => {
  const door = await startDoor();
  const answer = await door.post(saying("hi", streamed));
  expect(answer.status).toBe(200);
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "x-conversation-id": expect.stringContaining("chat"),
    "x-service-conversation-source": "header",
  });
  expect(await answer.text()).toBe("data: role\n\ndata: hello\n\ndata: [DONE]\n\n");
});

test("headers and the first chunk are there before the agent has said anything; silence is filled with pings", async () => {
  const seen = { begun: 0, ended: 0 };
  const door = await startDoor({ chat: { begin: async () => endless(seen) }, pingEveryMs: 20 });
  const answer = await door.post(saying("hi", streamed));
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.endsWith(": ping\n\n: ping\n\n")) text += (await reader.read()).value ?? "";
  expect(text).toBe("data: role\n\n: ping\n\n: ping\n\n");
  await reader.cancel();
  await until(() => seen.ended === 1);
});

test.each([true, false])("a caller that leaves is known to the turn, stream %s", async (stream) => {
  const seen = { begun: 0, ended: 0 };
  const door = await startDoor({ chat: { begin: async () => endless(seen) } });
  const leave = new AbortController();
  const answer = door.post(saying("hi", { stream }), {}, { signal: leave.signal });
  const left = answer.then((response) => response.text()).catch((error: Error) => error.name);
  await until(() => seen.begun === 1);
  leave.abort();
  expect(await left).toBe("AbortError");
  await until(() => seen.ended === 1);
  expect(door.log).toEqual([]);
});

test.each([true, false])(
  "a caller that leaves before the turn has begun is known to it, stream %s",
  async (stream) => {
    const seen = { begun: 0, ended: 0 };
    const asked = Promise.withResolvers<void>();
    const gone = Promise.withResolvers<void>();
    const door = await startDoor({
      chat: {
        begin: async () => {
          asked.resolve();
          await gone.promise;
          return endless(seen);
        },
      },
    });
    const body = JSON.stringify(saying("hi", { stream }));
    const socket = connect(door.port, "127.0.0.1");
    const head = `Host: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\n${head}\r\n\r\n${body}`);
    await asked.promise;
    socket.destroy();
    await once(socket, "close");
    // Another round trip: by then the server has heard of it.
    await fetch(`${door.url}/health`);
    gone.resolve();
    await until(() => seen.begun === 1 && seen.ended === 1);
  },
);

test("a reader that takes nothing counts as gone, and its connection is cut; one that waits does not", async () => {
  const seen = { begun: 0, ended: 0 };
  const waiting = { begun: 0, ended: 0 };
  const big = new Uint8Array(20_000_000);
  const door = await startDoor({
    stallSeconds: 0.3,
    chat: {
      begin: async ({ model }) => (model === "big" ? endless(seen, big) : endless(waiting)),
    },
  });
  const patient = await door.post(saying("hi", streamed));
  const reader = patient.body!.getReader();
  await reader.read();
  const body = JSON.stringify({ ...saying("hi", streamed), model: "big" });
  const socket = connect(door.port, "127.0.0.1");
  socket.on("error", () => {});
  socket.pause();
  const head = `Host: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\n${head}\r\n\r\n${body}`);
  await until(() => seen.ended === 1);
  const closed = once(socket, "close");
  socket.resume();
  await closed;
  expect(socket.bytesRead).toBeLessThan(20_000_000);
  expect(waiting).toEqual({ begun: 1, ended: 0 });
  await reader.cancel();
  await until(() => waiting.ended === 1);
});

test("a slow reader is not read ahead for", async () => {
  let given = 0;
  const piece = new Uint8Array(1_000_000);
  const door = await startDoor({
    chat: {
      begin: async () => ({
        ...turnOf(""),
        stream: async function* (signal) {
          for (; !signal.aborted && given < 200; given += 1) yield piece;
        },
      }),
    },
  });
  const answer = await door.post(saying("hi", streamed));
  const reader = answer.body!.getReader();
  await reader.read();
  await fetch(`${door.url}/health`);
  const before = given;
  expect(before).toBeLessThan(60);
  for (let read = 0; read < 70_000_000;) read += (await reader.read()).value?.byteLength ?? 0;
  expect(given).toBeGreaterThanOrEqual(70);
  await reader.cancel();
});

test("a stream that breaks against its promise ends, and the log says why", async () => {
  const door = await startDoor({
    chat: {
      begin: async () => ({
        ...turnOf(""),
        stream: async function* () {
          yield chunk("role");
          throw new Error("a bug");
        },
      }),
    },
  });
  const answer = await door.post(saying("hi", streamed));
  expect(await answer.text()).toBe("data: role\n\n");
  expect(door.log).toMatchObject([
    { err: { message: "a bug" }, request_id: answer.headers.get("x-request-id") },
  ]);
});

test("HEAD starts nothing", async () => {
  const door = await startDoor();
  const answer = await fetch(`${door.url}/v1/chat/completions`, { method: "HEAD" });
  expect([answer.status, await answer.text()]).toEqual([405, ""]);
  expect(door.asked).toEqual([]);
});
