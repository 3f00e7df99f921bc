import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { BusEvent, EventBus } from "../../src/store/event-bus.ts";
import { until } from "../until.ts";

type Harness = {
  /** A bus, and one with the same events: itself, or that of another instance. */
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

/** How a reader without a position reads. */
export const fromStart = { after: null, since: "", once: false };

/** Reads in the background; `seen`: the events so far. */
export const followBus = (
  bus: EventBus,
  id: string,
  options: Partial<Parameters<EventBus["read"]>[1]> = {},
  signal = never,
) => {
  const seen: { position: string; event: BusEvent }[] = [];
  const state = { seen, ended: false, contents: () => seen.map(({ event }) => event.content) };
  const reading = (async () => {
    for await (const entry of bus.read(id, { ...fromStart, ...options }, signal)) seen.push(entry);
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
      for (const content of ["a", "b", "c"]) bus.publish(busEvent(id, "tool_use", content));
      bus.publish(busEvent(id, "done"));
      const whole = followBus(bus, id);
      await whole.reading;
      expect(whole.contents()).toEqual(["a", "b", "c", ""]);
      const resumed = followBus(other, id, { after: whole.seen[1]?.position ?? null });
      await resumed.reading;
      expect(resumed.contents()).toEqual(["c", ""]);
      const late = followBus(other, id, { after: whole.seen[3]?.position ?? null, once: true });
      await late.reading;
      expect(late.seen).toEqual([]);
    });

    test("a reader who wants only what is there is not kept waiting", async () => {
      const { bus, other } = await open();
      await followBus(other, randomUUID(), { once: true }).reading;
      const id = randomUUID();
      bus.publish(busEvent(id, "tool_use", "x"));
      const reader = followBus(bus, id, { once: true });
      await reader.reading;
      expect(reader.contents()).toEqual(["x"]);
    });

    test("a later turn with the same id has events of its own, which continue after the earlier positions", async () => {
      const { bus, other } = await open();
      const id = randomUUID();
      bus.publish(busEvent(id, "tool_use", "old"));
      bus.publish(busEvent(id, "done"));
      const earlier = followBus(other, id);
      await earlier.reading;
      const since = "2026-01-01T00:00:01.000Z";
      const reader = followBus(bus, id, { since });
      bus.publish(busEvent(id, "tool_use", "new", { ts: since }));
      bus.publish(busEvent(id, "done", "", { ts: since }));
      await reader.reading;
      expect(reader.contents()).toEqual(["new", ""]);
      const resumed = followBus(other, id, { after: earlier.seen.at(-1)?.position ?? null, since });
      await resumed.reading;
      expect(resumed.contents()).toEqual(["new", ""]);
    });

    test("the newest 2000 events are retained", async () => {
      const { bus } = await open();
      const id = randomUUID();
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
      const leaving = new AbortController();
      const reader = followBus(bus, id, {}, leaving.signal);
      bus.publish(busEvent(id, "tool_use"));
      await until(() => reader.seen.length === 1);
      leaving.abort();
      await reader.reading;
      await followBus(bus, id, {}, AbortSignal.abort()).reading;
    });
  });
};
