import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { BusEvent, EventBus } from "../../src/store/event-bus.ts";
import { until } from "../until.ts";

type Harness = {
  /** A bus that collects pieces for 20 ms, and one with the same events: itself, or that of another instance. */
  open: () => Promise<{ bus: EventBus; other: EventBus }>;
};

export const busEvent = (
  id: string,
  event_type: BusEvent["event_type"],
  content = "",
  over: Partial<BusEvent> = {},
): BusEvent => ({
  event_type,
  content,
  ts: "2026-01-01T00:00:00.000Z",
  session_id: "s",
  correlation_id: id,
  ...over,
});

const never = new AbortController().signal;

/** Reads in the background; `seen`: the events so far. */
export const followBus = (bus: EventBus, id: string, after: string | null = null, signal = never) => {
  const seen: { position: string; event: BusEvent }[] = [];
  const state = { seen, ended: false, contents: () => seen.map(({ event }) => event.content) };
  const reading = (async () => {
    for await (const entry of bus.read(id, after, signal)) seen.push(entry);
    state.ended = true;
  })();
  return Object.assign(state, { reading });
};

/** The behaviour of every adapter of the event bus. */
export const eventBusSuite = (name: string, { open }: Harness): void => {
  describe(`event bus: ${name}`, () => {
    test("events arrive in order and complete, as they happen, and end with done", async () => {
      const { bus, other } = await open();
      const id = randomUUID();
      await bus.begin(id);
      const reader = followBus(other, id);
      const first = busEvent(id, "tool_use", '{"späße":"\u{1F600}\\n"}', { session_id: "" });
      bus.publish(first);
      await until(() => reader.seen.length === 1);
      expect(reader.seen[0]?.event).toEqual(first);
      for (let n = 0; n < 20; n += 1) bus.publish(busEvent(id, "tool_result", `${n}`));
      bus.publish(busEvent(id, "done", "completed"));
      await reader.reading;
      expect(reader.contents().slice(1)).toEqual([
        ...Array.from({ length: 20 }, (_, n) => `${n}`),
        "completed",
      ]);
    });

    test("a late reader gets all events from the first, or from its position", async () => {
      const { bus, other } = await open();
      const id = randomUUID();
      await bus.begin(id);
      for (const content of ["a", "b", "c"]) bus.publish(busEvent(id, "tool_use", content));
      bus.publish(busEvent(id, "done"));
      const whole = followBus(bus, id);
      await whole.reading;
      expect(whole.contents()).toEqual(["a", "b", "c", ""]);
      const resumed = followBus(other, id, whole.seen[1]?.position);
      await resumed.reading;
      expect(resumed.contents()).toEqual(["c", ""]);
      const late = followBus(other, id, whole.seen[3]?.position);
      await late.reading;
      expect(late.seen).toEqual([]);
    });

    test("pieces of thinking and of text become few events, complete and in order", async () => {
      const { bus } = await open();
      const id = randomUUID();
      await bus.begin(id);
      for (let n = 0; n < 500; n += 1) bus.publish(busEvent(id, "thinking", `${n} `));
      bus.publish(busEvent(id, "tool_use", "t"));
      for (let n = 0; n < 500; n += 1) bus.publish(busEvent(id, "assistant_text", `${n} `));
      bus.publish(busEvent(id, "done"));
      const reader = followBus(bus, id);
      await reader.reading;
      const of = (type: string) => reader.seen.filter(({ event }) => event.event_type === type);
      const all = Array.from({ length: 500 }, (_, n) => `${n} `).join("");
      for (const type of ["thinking", "assistant_text"]) {
        expect(of(type).length).toBeLessThan(50);
        expect(
          of(type)
            .map(({ event }) => event.content)
            .join(""),
        ).toBe(all);
      }
      const types = reader.seen.map(({ event }) => event.event_type);
      expect([...new Set(types)]).toEqual(["thinking", "tool_use", "assistant_text", "done"]);
    });

    test("reading an unknown id ends at once, reading one that has begun does not", async () => {
      const { bus, other } = await open();
      await followBus(bus, randomUUID()).reading;
      const id = randomUUID();
      await bus.begin(id);
      const reader = followBus(other, id);
      bus.publish(busEvent(id, "done", "x"));
      await reader.reading;
      expect(reader.contents()).toEqual(["x"]);
    });

    test("a new beginning removes earlier events, and continues after their positions", async () => {
      const { bus, other } = await open();
      const id = randomUUID();
      await bus.begin(id);
      bus.publish(busEvent(id, "tool_use", "old"));
      bus.publish(busEvent(id, "done"));
      const earlier = followBus(other, id);
      await earlier.reading;
      await bus.begin(id);
      bus.publish(busEvent(id, "tool_use", "new"));
      bus.publish(busEvent(id, "done"));
      const reader = followBus(bus, id);
      await reader.reading;
      expect(reader.contents()).toEqual(["new", ""]);
      const resumed = followBus(other, id, earlier.seen.at(-1)?.position);
      await resumed.reading;
      expect(resumed.contents()).toEqual(["new", ""]);
    });

    test("the newest 2000 events are retained", async () => {
      const { bus } = await open();
      const id = randomUUID();
      await bus.begin(id);
      const reader = followBus(bus, id);
      for (let n = 0; n < 2500; n += 1) {
        bus.publish(busEvent(id, "tool_use", `${n}`));
        if (n === 1200) await until(() => reader.seen.length === 1201);
      }
      bus.publish(busEvent(id, "done"));
      await reader.reading;
      const late = followBus(bus, id);
      await late.reading;
      expect([late.seen.length, late.contents()[0]]).toEqual([2000, "501"]);
    });

    test("a reader ends when its signal aborts", async () => {
      const { bus } = await open();
      const id = randomUUID();
      await bus.begin(id);
      const leaving = new AbortController();
      const reader = followBus(bus, id, null, leaving.signal);
      bus.publish(busEvent(id, "tool_use"));
      await until(() => reader.seen.length === 1);
      leaving.abort();
      await reader.reading;
      await followBus(bus, id, null, AbortSignal.abort()).reading;
    });
  });
};
