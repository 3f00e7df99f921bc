import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { startEngine } from "../jobs/engine.fixture.ts";
import { createLog } from "../lib/log.ts";
import { createBell } from "../lib/bell.ts";
import { takeUp } from "./take-up.ts";

const log = createLog("silent", (text) => text);

type World = { fail: () => Promise<void>; signal?: AbortSignal };

/** Takes up one job that an earlier start has left; settling it does first what the test says. */
const startTakeUp = async ({ fail, signal = new AbortController().signal }: World) => {
  const engine = await startEngine();
  const { store, events, queue, spool } = engine;
  const { id } = await engine.submit();
  await store.update(id, { status: ["queued"] }, { status: "running", attempt: 1, unsettled: true });
  const did: string[] = [];
  const note = (what: string) => async () => void did.push(what);
  const settleLost = async () => {
    await fail();
    return { requeue: false, patch: {} };
  };
  const wasOurs = (): boolean => true;
  const now = (): Date => new Date();
  const settlements = createBell();
  const done = takeUp({
    earlier: { store, events, queue, spool, settlements, settleLost, wasOurs, now, log },
    afterwards: [note("new jobs")],
    signal,
  });
  return { did, done, status: async () => (await store.get(id))?.status };
};

test("while the store fails nothing new begins, and what is done is not done again", async () => {
  let tries = 0;
  const fail = async (): Promise<void> => {
    tries += 1;
    if (tries < 3) throw new ServiceError("store_unavailable", "gone");
    expect(world?.did).toEqual([]);
  };
  let world: Awaited<ReturnType<typeof startTakeUp>> | null = null;
  world = await startTakeUp({ fail });
  await world.done;
  expect(tries).toBe(3);
  expect(world.did).toEqual(["new jobs"]);
  expect(await world.status()).toBe("failed");
});

test("a job that cannot be settled for a reason of its own is tried again while new ones begin", async () => {
  let broken = true;
  const world = await startTakeUp({
    fail: async () => {
      if (broken) throw new Error("its disk is full");
    },
  });
  await until(() => world.did.includes("new jobs"));
  expect(await world.status()).toBe("running");
  broken = false;
  await world.done;
  expect(await world.status()).toBe("failed");
});

test("it ends when the service stops", async () => {
  const stopping = new AbortController();
  const world = await startTakeUp({
    fail: () => Promise.reject(new ServiceError("store_unavailable", "gone")),
    signal: stopping.signal,
  });
  stopping.abort();
  await world.done;
  expect(world.did).not.toContain("new jobs");
});
