import { expect, test } from "vitest";
import { startEngine } from "../jobs/engine.fixture.ts";
import { createLog } from "../lib/log.ts";
import { finish } from "./drain.ts";

const log = createLog("silent", (text) => text);

test("a claim under way counts as work: the run that it becomes gets its time to finish", async () => {
  const { submit, worker, store } = await startEngine();
  const { id } = await submit();
  const answered = Promise.withResolvers<void>();
  const { get } = store;
  store.get = async (asked) => {
    await answered.promise;
    return await get(asked);
  };
  const work = worker.work(id);
  expect(worker.runningCount()).toBe(1);
  const finished = finish({ worker, agentMode: null, log }, 60, []);
  answered.resolve();
  await finished;
  expect((await get(id))?.status).toBe("succeeded");
  expect(worker.runningCount()).toBe(0);
  await work;
});

test("a claim that the store does not answer is not waited for longer than is given", async () => {
  const { submit, worker, store } = await startEngine();
  const { id } = await submit();
  const answered = Promise.withResolvers<null>();
  store.get = () => answered.promise;
  const work = worker.work(id);
  const hurry = new AbortController();
  const finished = finish({ worker, agentMode: null, log }, 60, [hurry.signal]);
  hurry.abort();
  await finished;
  answered.resolve(null);
  expect(await work).toBe("done");
});
