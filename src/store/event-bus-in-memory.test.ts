import { expect, test } from "vitest";
import { busEvent, eventBusSuite, followBus } from "../../test/ports/event-bus-suite.ts";
import { openLocalEventBus } from "../../test/open-stores.ts";

const begin = new Date("2026-01-01T00:00:00Z");

eventBusSuite("memory", {
  open: async () => {
    const bus = openLocalEventBus({ now: () => begin });
    return { bus, other: bus };
  },
});

const contentsOf = async (bus: ReturnType<typeof openLocalEventBus>, id: string) => {
  const reader = followBus(bus, id, { once: true });
  await reader.reading;
  return reader.contents();
};

test("events are retained for an hour after done", async () => {
  const clock = { now: begin };
  const bus = openLocalEventBus({ now: () => clock.now });
  bus.publish(busEvent("a", "done", "x"));
  expect(await contentsOf(bus, "a")).toEqual(["x"]);
  clock.now = new Date(begin.getTime() + 3_599_999);
  expect(await contentsOf(bus, "a")).toEqual(["x"]);
  clock.now = new Date(begin.getTime() + 3_600_000);
  expect(await contentsOf(bus, "a")).toEqual([]);
});

test("all streams together are bounded: those written longest ago are dropped first, then the oldest events", async () => {
  const bus = openLocalEventBus({ now: () => begin, maxCharacters: 2500 });
  const big = "x".repeat(1000);
  bus.publish(busEvent("ended", "tool_use", big));
  bus.publish(busEvent("ended", "done"));
  for (const id of ["running", "new"]) {
    bus.publish(busEvent(id, "tool_use", big));
    bus.publish(busEvent(id, "done"));
  }
  expect(await contentsOf(bus, "ended")).toEqual([]);
  expect(await contentsOf(bus, "new")).toEqual([big, ""]);
  bus.publish(busEvent("one", "tool_use", "first"));
  for (let n = 0; n < 3; n += 1) bus.publish(busEvent("one", "tool_use", `${n}${big}`));
  bus.publish(busEvent("one", "done"));
  expect((await contentsOf(bus, "one")).map((content) => content[0] ?? "")).toEqual(["1", "2", ""]);
});
