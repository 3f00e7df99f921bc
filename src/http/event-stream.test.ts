import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { ping } from "../lib/sse.ts";
import { eventStream, type EventBody } from "./event-stream.ts";

/** What a connection receives that `body` is written to. */
const open = async (body: EventBody): Promise<AsyncIterable<Uint8Array>> => {
  const server = createServer((_, outgoing) => void body(outgoing)).listen(0, "127.0.0.1");
  await once(server, "listening");
  server.unref();
  const { port } = server.address() as AddressInfo;
  const answer = await fetch(`http://127.0.0.1:${port}`, { headers: { connection: "close" } });
  return answer.body ?? new ReadableStream<Uint8Array>();
};

test("pings fill the silence only", async () => {
  const gate = Promise.withResolvers<void>();
  const source = async function* () {
    yield "a";
    await gate.promise;
    yield "b";
  };
  let text = "";
  const body = eventStream(source, { endedBy: [], pingEveryMs: 20, onFailure: () => {} });
  for await (const piece of await open(body)) {
    text += Buffer.from(piece).toString();
    if (text.startsWith(`a${ping}${ping}`)) gate.resolve();
  }
  expect(text.replaceAll(ping, "")).toBe("ab");
  expect(text).toMatch(/^a(: ping\n\n){2,}b$/);
});

test("an error of the source ends the stream and is reported", async () => {
  const source = async function* () {
    yield "a";
    throw new Error("broken");
  };
  const reported = Promise.withResolvers<unknown>();
  const body = eventStream(source, { endedBy: [], onFailure: reported.resolve });
  const pieces = await Array.fromAsync(await open(body));
  expect(Buffer.concat(pieces).toString()).toBe("a");
  expect(await reported.promise).toEqual(new Error("broken"));
});
