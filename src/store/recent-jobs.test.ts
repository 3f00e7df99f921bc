import { randomUUID } from "node:crypto";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openFilesJobStore } from "../../test/open-stores.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createLog } from "../lib/log.ts";
import type { JobRecord } from "./job-record.ts";
import { isBehind, openRecentJobs } from "./recent-jobs.ts";

const log = createLog("silent", (line) => line);
const at = "2026-05-01T12:00:00.000Z";
const stage = (name: "claimed" | "agent_started" | "ended") => ({ stage: name, at, attempt: 1 });

const queued = sampleRecord({ status: "queued", attempt: 0, stages: [] });
const running: JobRecord = {
  ...queued,
  status: "running",
  attempt: 1,
  unsettled: true,
  stages: [stage("claimed")],
};
const process = { pid: 1, start_time: "1", boot_id: "b" };
const ended: Partial<JobRecord> = {
  status: "succeeded",
  unsettled: false,
  ended_at: at,
  stages: [stage("ended")],
};
const succeeded: JobRecord = { ...running, ...ended };
const again = { ...queued, attempt: 1, stages: running.stages };

test.each<[string, JobRecord, JobRecord, boolean]>([
  ["queued, and it was claimed", queued, running, true],
  ["queued, and it has ended", queued, succeeded, true],
  ["running, and it has ended", running, succeeded, true],
  ["claimed elsewhere since, and it had ended", { ...running, instance_epoch: "other" }, succeeded, true],
  ["running, and it was queued again", running, again, true],
  [
    "running, and it has passed another stage",
    running,
    { ...running, stages: [stage("claimed"), stage("agent_started")] },
    true,
  ],
  ["running, and its agent had started", running, { ...running, process }, true],
  [
    "parked since, and its agent had started",
    { ...running, instance_epoch: null },
    { ...running, process, instance_epoch: "own" },
    false,
  ],
  [
    "cancelled but not settled, and it was settled",
    { ...succeeded, status: "cancelled", unsettled: true },
    { ...succeeded, status: "cancelled" },
    true,
  ],
  ["the same", running, running, false],
  ["claimed by a later attempt", { ...running, attempt: 2 }, again, false],
  ["queued again", again, running, false],
  [
    "further than what was kept",
    { ...running, stages: [stage("claimed"), stage("agent_started")] },
    running,
    false,
  ],
  ["cancelled since", { ...succeeded, status: "cancelled" }, running, false],
  ["cancelled since, and it had succeeded", { ...succeeded, status: "cancelled" }, succeeded, false],
  [
    "called lost, and it had succeeded",
    { ...succeeded, status: "failed", unsettled: true },
    succeeded,
    false,
  ],
])("a store that has the job as %s: behind is %s", (_what, current, record, expected) => {
  expect(isBehind(current, record)).toBe(expected);
});

const openWorld = async () => {
  const [directory, store] = [
    await temporaryDirectory(),
    await openFilesJobStore(await temporaryDirectory(), log),
  ];
  const clock = { now: Date.parse(at) };
  const open = () => openRecentJobs({ directory, now: () => new Date(clock.now), log });
  const job = (changes: Partial<JobRecord>): JobRecord => ({ ...succeeded, ...changes, id: randomUUID() });
  return { directory, store, clock, open, job, recent: await open() };
};

test("jobs that the store does not have are in it again, but not those past their time; others with the same name stay", async () => {
  const { store, clock, job, recent } = await openWorld();
  const idempotency = { key: "k", body: "b" };
  const [lost, old] = [job({ ttl_seconds: 60 }), job({ ttl_seconds: 1 })];
  const [earlier, later] = [job({ idempotency }), job({ ...queued, idempotency })];
  for (const record of [lost, old, earlier]) await recent.note(record);
  await store.create(later);
  clock.now += 1000;
  expect(await recent.replay(store)).toEqual([lost]);
  expect(await store.get(lost.id)).toEqual(lost);
  for (const { id } of [old, earlier]) expect(await store.get(id)).toBeNull();
  expect(await recent.replay(store)).toEqual([]);
});

test("the next start knows ended jobs only; after ten minutes, and past a thousand jobs, the oldest go", async () => {
  const { directory, store, clock, open, job, recent } = await openWorld();
  const [ended, accepted] = [job({}), job(queued)];
  await recent.note(ended);
  await recent.note(accepted);
  expect(await readdir(directory)).toEqual([`${ended.id}.json`]);
  expect(await (await open()).replay(store)).toEqual([ended]);
  expect(await recent.replay(store)).toEqual([accepted]);

  clock.now += 600_000;
  const others = Array.from({ length: 1001 }, () => job(queued));
  for (const record of others) await recent.note(record);
  expect(await readdir(directory)).toEqual([]);
  const restored = await recent.replay(await openFilesJobStore(await temporaryDirectory(), log));
  expect(restored).toHaveLength(1000);
});

test("a file that is damaged keeps no other back", async () => {
  const { directory, store, job, recent, open } = await openWorld();
  const [damaged, whole] = [job({}), job({})];
  for (const record of [damaged, whole]) await recent.note(record);
  await writeFile(join(directory, `${damaged.id}.json`), "{");
  expect(await recent.replay(store)).toEqual([whole]);
  expect(await (await open()).replay(store)).toEqual([]);
});
