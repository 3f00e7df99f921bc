import { expect, test } from "vitest";
import pino from "pino";
import type { Seat, Wanted } from "./processes.ts";
import { createSpares } from "./spares.ts";

const wanted = {
  loaded: { fingerprint: "one" },
  maxTurns: null,
  disabledMcpServers: [],
} as unknown as Wanted;

test("processes that end at once are not started again and again", async () => {
  let started = 0;
  const fresh = async (): Promise<Seat> => {
    started += 1;
    if (started > 50) throw new Error("far too many");
    const process = { ended: Promise.resolve(), isIdle: () => false, end: async () => undefined };
    return { process, variant: "other" } as unknown as Seat;
  };
  const log = pino({ level: "silent" });
  const spares = createSpares({ seats: { fresh }, usual: async () => wanted, count: 3, log });
  spares.refill();
  // As impatient as a housekeeper.
  for (let round = 0; round < 20; round += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    spares.refill();
  }
  await spares.stop();
  expect(started).toBeGreaterThan(0);
  expect(started).toBeLessThanOrEqual(4);
});
