import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createLog } from "../lib/log.ts";
import { openFilesJobStore } from "../../test/open-stores.ts";
import { createLocalInstances } from "../store/instances.ts";
import { createInstancesView } from "./cluster.ts";

const now = Date.parse("2026-05-01T12:00:00.000Z");
const agoSeconds = (seconds: number): string => new Date(now - seconds * 1000).toISOString();

const facts = {
  name: "worker",
  version: "1.0.0",
  started_at: agoSeconds(500),
  running: 1,
  max_parallel_jobs: 3,
  turns: 0,
  draining: false,
  address: null,
  agent_mode: false,
};

const opened = async () => {
  const store = await openFilesJobStore(
    await temporaryDirectory(),
    createLog("silent", (line) => line),
  );
  const instances = createLocalInstances();
  const view = createInstancesView({ store, instances, now: () => new Date(now) });
  const submit = async (changes = {}): Promise<string> => {
    const record = sampleRecord({ id: randomUUID(), ...changes });
    await store.create(record);
    return record.id;
  };
  return { store, instances, view, submit };
};

test("the view has the queue, its oldest job, what was lost, and the instances without their epochs", async () => {
  const { store, instances, view, submit } = await opened();
  await instances.join({ ...facts, epoch: randomUUID() });
  await submit({ status: "running", created_at: agoSeconds(900), pod_name: "worker", unsettled: true });
  await submit({ created_at: agoSeconds(12.34) });
  await submit({ created_at: agoSeconds(5) });
  await store.count("lost");
  await store.count("recovered");
  await store.count("recovered");
  expect(await view.overview()).toEqual({
    queue: { waiting: 2, running: 1, oldest_wait_seconds: 12.3 },
    lost: 1,
    limits: [],
    recovered: 2,
    instances: [facts],
  });
});

test("nothing waits longest when nothing waits, and a clock that was set back makes no wait negative", async () => {
  const { view, submit } = await opened();
  expect((await view.overview()).queue).toEqual({ waiting: 0, running: 0, oldest_wait_seconds: null });
  await submit({ created_at: agoSeconds(-60) });
  expect((await view.overview()).queue).toEqual({ waiting: 1, running: 0, oldest_wait_seconds: 0 });
});

test("a job that is claimed just then does not count as the oldest", async () => {
  const { store, instances, submit } = await opened();
  const claimed = await submit({ created_at: agoSeconds(100) });
  await submit({ created_at: agoSeconds(7) });
  const view = createInstancesView({
    store: {
      ...store,
      ids: async (...asked) => {
        const ids = await store.ids(...asked);
        await store.update(claimed, { status: ["queued"] }, { status: "running" });
        return ids;
      },
    },
    instances,
    now: () => new Date(now),
  });
  expect((await view.overview()).queue.oldest_wait_seconds).toBe(7);
});
