import pino from "pino";
import { expect, test } from "vitest";
import type { AgentProcess } from "../agents/agent.ts";
import { closePool, openPool, prewarm, type ProcessOptions } from "./pool.ts";

const loaded = { fingerprint: "one" } as ProcessOptions["loaded"];

const poolOf = (process: () => Partial<AgentProcess>) =>
  openPool({
    cli: {
      start: async () => ({ ok: true, process: process() as AgentProcess }),
      findAnswer: async () => "lost",
    },
    agent: {
      read: async () => loaded,
      materialise: async () => ({ model: null }) as never,
      discard: async () => undefined,
    },
    workspaces: { pathOf: (id) => id, use: async () => undefined },
    limits: { prewarmed: 3, idle: 1, idleSeconds: 1 },
    newId: () => "id",
    idPrefix: "",
    log: pino({ level: "silent" }),
  });

test("processes that end at once are not started again and again", async () => {
  let started = 0;
  const process = (): Partial<AgentProcess> => {
    started += 1;
    return { ended: Promise.resolve(), isIdle: () => false, end: async () => undefined };
  };
  const pool = poolOf(process);
  // As impatient as a housekeeper.
  for (let round = 0; round < 20; round += 1) {
    prewarm(pool);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await closePool(pool);
  expect(started).toBeGreaterThan(0);
  expect(started).toBeLessThanOrEqual(4);
});
