import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { ping } from "../lib/sse.ts";
import { eventStream, type EventBody } from "./event-stream.ts";

const doors: Record<string, (body: EventBody) => Promise<AsyncIterable<Uint8Array>>> = {
  "a connection": async (body) => {
    const server = createServer((_, outgoing) => void body.pipe(outgoing)).listen(0, "127.0.0.1");
    await new Promise<void>((resolve) => void server.once("listening", resolve));
    server.unref();
    const { port } = server.address() as AddressInfo;
    return (await fetch(`http://127.0.0.1:${port}`, { headers: { connection: "close" } })).body ?? nothing;
  },
  "a readable": async (body) => body.readable(),
};

const nothing = new ReadableStream<Uint8Array>();

test.for(Object.entries(doors))("pings fill the silence only: %s", async ([, open]) => {
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

test.for(Object.entries(doors))(
  "an error of the source ends the stream and is told: %s",
  async ([, open]) => {
    const source = async function* () {
      yield "a";
      throw new Error("broken");
    };
    const told = Promise.withResolvers<unknown>();
    const body = eventStream(source, { endedBy: [], onFailure: told.resolve });
    const pieces = await Array.fromAsync(await open(body));
    expect(Buffer.concat(pieces).toString()).toBe("a");
    expect(await told.promise).toEqual(new Error("broken"));
  },
);
