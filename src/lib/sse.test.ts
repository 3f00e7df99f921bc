import { expect, test } from "vitest";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import fc from "fast-check";
import { encodeEvent } from "./sse.ts";

const text = fc.string({
  unit: fc.oneof(fc.string({ unit: "grapheme", maxLength: 1 }), fc.constantFrom("\r", "\n", ":")),
});

test("a standard parser reads back every encoded event, line ends as newlines", () => {
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
