import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { startEngine } from "./engine.fixture.ts";
import { someProcess } from "./sweep.fixture.ts";
import { createLog, type Log } from "../lib/log.ts";
import { createNotifier } from "../lib/notifier.ts";
import { openOutcomeSpool } from "./outcomes.ts";
import { recover } from "./recovery.ts";

const log = createLog("silent", (text) => text);

type World = { fail: () => Promise<void>; requeue?: boolean };

/** Takes up one job that an earlier start has left; settling it does first what the test says. */
const startTakeUp = async ({ fail, requeue = false }: World) => {
  const engine = await startEngine();
  const { store, events, queue, spool } = engine;
  const { id } = await engine.submit();
  const begun = { status: "running" as const, attempt: 1, unsettled: true, retry_lost: requeue };
  await store.update(id, { status: ["queued"] }, { ...begun, process: requeue ? null : someProcess });
  let tries = 0;
  const did: string[] = [];
  const note = (what: string) => async () => void did.push(what);
  const settleLost = async () => {
    tries += 1;
    await fail();
    return { requeue, patch: {} };
  };
  const wasOurs = (): boolean => true;
  const now = (): Date => new Date();
  const jobEnds = createNotifier();
  const done = recover({
    store,
    events,
    queue,
    spool,
    jobEnds,
    onEnded: () => undefined,
    settleLost,
    wasOwn: wasOurs,
    now,
    log,
    afterwards: [note("new jobs")],
    signal: new AbortController().signal,
  });
  return { did, done, tries: () => tries, get: () => store.get(id) };
};

test("a job that may run again is queued only when nothing of it runs any more, and new ones wait for that", async () => {
  const ended = Promise.withResolvers<void>();
  const world = await startTakeUp({ fail: () => ended.promise, requeue: true });
  await until(() => world.tries() > 0, { what: "its orphans to be looked for" });
  expect(world.did).toEqual([]);
  expect(await world.get()).toMatchObject({ status: "running", unsettled: true });
  ended.resolve();
  await world.done;
  expect(world.did).toEqual(["new jobs"]);
  expect(await world.get()).toMatchObject({ status: "queued", unsettled: false });
});

test("while the store fails nothing new begins, and what is done is not done again", async () => {
  let tries = 0;
  const fail = async (): Promise<void> => {
    tries += 1;
    if (tries < 3) throw new ServiceError("store_unavailable", "gone");
    expect(world?.did).toEqual([]);
  };
  let world: Awaited<ReturnType<typeof startTakeUp>> | null = null;
  world = await startTakeUp({ fail, requeue: true });
  await world.done;
  expect(tries).toBe(3);
  expect(world.did).toEqual(["new jobs"]);
  expect(await world.get()).toMatchObject({ status: "queued" });
});

test("a job that cannot be cleaned up after for a reason of its own is tried again while new ones begin", async () => {
  let broken = true;
  const world = await startTakeUp({
    fail: async () => {
      if (broken) throw new Error("its disk is full");
    },
  });
  await until(() => world.did.includes("new jobs"));
  expect(await world.get()).toMatchObject({ unsettled: true });
  broken = false;
  await world.done;
  expect(await world.get()).toMatchObject({ status: "failed", unsettled: false });
});

test("no outcome in the spool waits for another; what is none stays with a warning", async () => {
  const engine = await startEngine();
  const { store, events, queue } = engine;
  const warnings: string[] = [];
  const warn = (_: unknown, said: string): void => void warnings.push(said);
  const directory = join(engine.directory, "spool");
  const odd = { id: "0", attempt: 1, at: "", outcome: { kind: "odd", patch: {} } };
  await writeFile(join(directory, "0.1.json"), JSON.stringify(odd));
  await writeFile(join(directory, "torn.json"), "{");
  const spool = await openOutcomeSpool(directory, { ...log, warn } as unknown as Log);
  const begun = { status: "running" as const, attempt: 1, unsettled: true };
  const ids = [(await engine.submit()).id, (await engine.submit()).id].toSorted();
  for (const id of ids) {
    await store.update(id, { status: ["queued"] }, begun);
    await spool.add({
      id,
      attempt: 1,
      epoch: null,
      at: new Date().toISOString(),
      outcome: { kind: "succeeded", patch: {} },
    });
  }
  const [first, second] = ids;
  let isUp = false;
  const update: typeof store.update = (id, ...rest) =>
    id === first && !isUp
      ? Promise.reject(new ServiceError("store_unavailable", "not this one"))
      : store.update(id, ...rest);
  const done = recover({
    store: { ...store, update },
    events,
    queue,
    spool,
    jobEnds: createNotifier(),
    onEnded: () => undefined,
    settleLost: () => expect.fail("nothing is lost"),
    wasOwn: () => true,
    now: () => new Date(),
    log,
    afterwards: [],
    signal: new AbortController().signal,
  });
  await until(async () => (await store.get(second ?? ""))?.status === "succeeded");
  expect((await store.get(first ?? ""))?.status).toBe("running");
  isUp = true;
  await done;
  expect((await store.get(first ?? ""))?.status).toBe("succeeded");
  expect((await readdir(directory)).toSorted()).toEqual(["0.1.json", "torn.json"]);
  expect(warnings).toEqual([1, 2].map(() => expect.stringContaining("file skipped")));
});
