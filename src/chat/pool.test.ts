import pino from "pino";
import { expect, test } from "vitest";
import type { AgentProcess } from "../agents/agent.ts";
import { until } from "../../test/until.ts";
import { closePool, openPool, prewarm, resume, type ProcessOptions } from "./pool.ts";

const loaded = { fingerprint: "one" } as ProcessOptions["loaded"];
const wanted: ProcessOptions = { loaded, model: null, maxTurns: null, disabledMcpServers: [] };

type Given = { process: () => Partial<AgentProcess>; removeEmpty?: () => Promise<void>; said?: string[] };

const poolOf = ({ process, removeEmpty = async () => undefined, said = [] }: Given) =>
  openPool({
    cli: { start: async () => ({ ok: true, process: process() as AgentProcess }) },
    agent: {
      read: async () => loaded,
      materialise: async () => ({ model: null }) as never,
      discard: async () => undefined,
    },
    workspaces: { pathOf: (id) => id, use: async () => void said.push("use"), removeEmpty },
    limits: { prewarmed: 3, idle: 1, idleSeconds: 1 },
    newId: () => "id",
    idPrefix: "",
    log: pino({ level: "silent" }),
  });

test("a process that continues where another one has just ended waits until the empty directory is removed", async () => {
  const said: string[] = [];
  const removed = Promise.withResolvers<void>();
  const first = Promise.withResolvers<void>();
  const ends = [first.promise, new Promise<void>(() => undefined)];
  const removeEmpty = async (): Promise<void> => {
    said.push("remove");
    await removed.promise;
    said.push("removed");
  };
  const pool = poolOf({ process: () => ({ ended: ends.shift() ?? first.promise }), removeEmpty, said });
  const session = { id: "s", resumeFrom: "/transcript", cwd: "/workspace" };
  await resume(pool, wanted, session);
  first.resolve();
  await until(() => said.includes("remove"));
  const next = resume(pool, wanted, session);
  await new Promise((resolve) => setImmediate(resolve));
  removed.resolve();
  await next;
  expect(said).toEqual(["use", "remove", "removed", "use"]);
});

test("processes that end at once are not started again and again", async () => {
  let started = 0;
  const process = (): Partial<AgentProcess> => {
    started += 1;
    return { ended: Promise.resolve(), isIdle: () => false, end: async () => undefined };
  };
  const pool = poolOf({ process });
  // As impatient as a housekeeper.
  for (let round = 0; round < 20; round += 1) {
    prewarm(pool);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await closePool(pool);
  expect(started).toBeGreaterThan(0);
  expect(started).toBeLessThanOrEqual(4);
});
