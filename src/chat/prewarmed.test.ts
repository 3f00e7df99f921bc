import { expect, test } from "vitest";
import pino from "pino";
import type { WarmProcess, ProcessOptions } from "./processes.ts";
import { createPrewarmed } from "./prewarmed.ts";

const wanted = {
  loaded: { fingerprint: "one" },
  maxTurns: null,
  disabledMcpServers: [],
} as unknown as ProcessOptions;

test("processes that end at once are not started again and again", async () => {
  let started = 0;
  const fresh = async (): Promise<WarmProcess> => {
    started += 1;
    if (started > 50) throw new Error("far too many");
    const process = { ended: Promise.resolve(), isIdle: () => false, end: async () => undefined };
    return { process, variant: "other" } as unknown as WarmProcess;
  };
  const log = pino({ level: "silent" });
  const prewarmed = createPrewarmed({
    processes: { fresh },
    defaultOptions: async () => wanted,
    count: 3,
    log,
  });
  prewarmed.refill();
  // As impatient as a housekeeper.
  for (let round = 0; round < 20; round += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    prewarmed.refill();
  }
  await prewarmed.stop();
  expect(started).toBeGreaterThan(0);
  expect(started).toBeLessThanOrEqual(4);
});
