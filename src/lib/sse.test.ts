import { expect, test } from "vitest";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import fc from "fast-check";
import { encodeEvent, ping, withPing } from "./sse.ts";

const text = fc.string({
  unit: fc.oneof(fc.string({ unit: "grapheme", maxLength: 1 }), fc.constantFrom("\r", "\n", ":")),
});

test("whatever is encoded is read back by a parser of the standard, line ends as newlines", () => {
  fc.assert(
    fc.property(text, fc.nat(), (data, id) => {
      const received: EventSourceMessage[] = [];
      createParser({ onEvent: (event) => received.push(event) }).feed(
        encodeEvent({ id: String(id), event: "text", data }),
      );
      expect(received).toEqual([{ id: String(id), event: "text", data: data.replaceAll(/\r\n?/g, "\n") }]);
    }),
  );
});

test("pings fill the silence only", async () => {
  const gate = Promise.withResolvers<void>();
  const source = (async function* () {
    yield "a";
    await gate.promise;
    yield "b";
  })();
  const pieces: string[] = [];
  for await (const piece of withPing(source, 20)) {
    pieces.push(piece);
    if (pieces.length === 3) gate.resolve();
  }
  expect(pieces).toEqual(["a", ping, ping, "b"]);
});

test("a consumer that stops early ends the source, and an error of the source reaches the consumer", async () => {
  let ended = false;
  const source = async function* () {
    try {
      yield "a";
      throw new Error("broken");
    } finally {
      ended = true;
    }
  };
  for await (const piece of withPing(source(), 1000)) {
    expect(piece).toBe("a");
    break;
  }
  expect(ended).toBe(true);
  await expect(Array.fromAsync(withPing(source(), 1000))).rejects.toThrow("broken");
});
