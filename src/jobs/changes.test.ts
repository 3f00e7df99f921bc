import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import type { JobChange } from "../contract/job-list.ts";
import { createNotifier, missed } from "../lib/notifier.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import { announcing, createJobChanges } from "./changes.ts";

/** A store of records that only count how often they are read. */
const opened = () => {
  const notifier = createNotifier();
  const records = new Map<string, JobRecord>();
  let reads = 0;
  const made = (id: string): JobRecord => {
    const record = { id, messages: [], warnings: [] } as unknown as JobRecord;
    records.set(id, record);
    return record;
  };
  const store = announcing(
    {
      get: async (id: string) => ((reads += 1), records.get(id) ?? null),
      create: async ({ id }: JobRecord) => ({ record: made(id), created: !records.has(id) || id === "new" }),
      update: async (id: string) => records.get(id) ?? null,
      remove: async (id: string) => void records.delete(id),
    } as unknown as JobStore,
    notifier,
  );
  const changes = createJobChanges({ store, notifier, gatherMs: 5 });
  const follow = () => {
    const seen: string[] = [];
    const stop = new AbortController();
    const done = (async () => {
      for await (const change of changes(stop.signal)) seen.push(nameOf(change));
    })();
    return { seen, stop, done };
  };
  return { store, notifier, made, follow, changes, reads: () => reads };
};

const nameOf = (change: JobChange): string =>
  change.type === "job" ? change.job.id : change.type === "removed" ? `-${change.id}` : "behind";

const patch = [{ status: ["running" as const] }, {}] as const;

test("every reader is told of jobs that are new, changed and removed; however many read, each is read once", async () => {
  const { store, made, follow, reads } = opened();
  const readers = [follow(), follow(), follow()];
  made("a");
  await store.create({ id: "new" } as JobRecord);
  await store.update("a", ...patch);
  await store.update("a", ...patch);
  await store.update("unknown", ...patch);
  await until(() => readers.every(({ seen }) => seen.length === 2));
  await store.remove("a");
  await until(() => readers.every(({ seen }) => seen.length === 3));
  expect(readers.map(({ seen }) => seen)).toEqual(Array(3).fill(["new", "a", "-a"]));
  expect(reads()).toBe(3);
});

test("where nobody reads, nothing is read; who stops is told nothing more", async () => {
  const { store, made, follow, reads } = opened();
  made("a");
  const { seen, stop, done } = follow();
  stop.abort();
  await done;
  await store.update("a", ...patch);
  const next = follow();
  await store.update("a", ...patch);
  await until(() => next.seen.length === 1);
  expect(seen).toEqual([]);
  expect(reads()).toBe(1);
});

test("a reader that does not keep up, a burst, and lost notifications: readers are told to read the list again", async () => {
  const { store, notifier, made, changes, follow } = opened();
  const stop = new AbortController();
  const slow = changes(stop.signal);
  const first = slow.next();
  const quick = follow();
  made("a");
  await store.update("a", ...patch);
  await first;
  for (let burst = 0; burst < 3; burst += 1) {
    const ids = Array.from({ length: 300 }, (_, n) => `${burst}-${n}`);
    for (const id of ids) notifier.notify(`changed:${id}`);
    await until(() => quick.seen.length === 1 + 300 * (burst + 1));
  }
  expect(nameOf((await slow.next()).value as JobChange)).toBe("behind");
  for (let n = 0; n < 501; n += 1) notifier.notify(`changed:${n}`);
  await until(() => quick.seen.at(-1) === "behind");
  const before = quick.seen.length;
  notifier.notify(missed);
  await until(() => quick.seen.length > before);
  expect(quick.seen.at(-1)).toBe("behind");
  stop.abort();
});
