import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sampleWorktree } from "../../test/ports/worktree-record-sample.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import type { RepositoryUsage } from "../contract/worktree.ts";
import { createLog } from "../lib/log.ts";
import type { Repos, WorktreeOnDisk } from "../repos/repos.ts";
import { createLocalLocks, lockOf } from "../store/locks.ts";
import { openFilesRecords } from "../store/files-records.ts";
import { createWorktreeStore, worktreeKind } from "../store/worktree-store.ts";
import type { WorktreeUse } from "../store/job-store.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import type { Dependencies } from "./dependencies.ts";
import type { WorktreeFacts } from "./facts.ts";
import { worktreeStatus } from "./status.ts";
import { createWorktrees } from "./worktrees.ts";

const log = createLog("silent", (text) => text);
const hour = 3_600_000;
const start = Date.parse("2026-01-01T00:00:00.000Z");

const onDiskOf = (id: string) =>
  ({
    worktree: { worktreeId: id, path: join("/worktrees", id), repoUrl: "", repoKey: null },
    ready: true,
    directoryExists: true,
    changed: "1",
    instance: "pod",
    since: new Date(start),
    isThrowaway: false,
    kept: [],
    ignored: [],
  }) as unknown as WorktreeOnDisk;

/** A ready worktree of one hour's time to live, a disk that is only remembered, and a clock that the test sets. */
const world = async (over: { removalFails?: boolean; repos?: Partial<Repos> } = {}) => {
  const directory = await temporaryDirectory();
  const records = createWorktreeStore(
    await openFilesRecords(worktreeKind, { directory, now: () => new Date(), log }),
  );
  const record = sampleWorktree({ status: "ready", used_at: new Date(start).toISOString() });
  await records.create(record);
  const { worktree_id: id } = record;
  const closing = new AbortController();
  const locks = createLocalLocks();
  const scene = { now: start, uses: [] as WorktreeUse[], further: [] as string[], removed: 0, tries: 0 };
  const onDisk = onDiskOf(id);
  const repos: Partial<Repos> = {
    expireRefs: async () => 0,
    readWorktree: async () => (scene.removed === 0 ? onDisk : null),
    listWorktreeIds: async () => scene.further,
    worktreeSince: async () => new Date(start),
    savedClone: () => "/saved.git",
    worktreePath: (name) => join("/worktrees", name),
    isPushed: async () => true,
    ignoredStill: async (_worktree, paths) => paths,
    removeWorktree: async () => {
      scene.tries += 1;
      if (over.removalFails === true) throw new Error("busy");
      scene.removed += 1;
    },
    ...over.repos,
  };
  const deps: Partial<Dependencies> = {
    records,
    repos: repos as Repos,
    jobs: { usesOfWorktree: async () => scene.uses, update: async () => null, get: async () => null },
    locks,
    settings: {
      podName: "pod",
      shared: true,
      worktreeTtl: hour / 1000,
      preparedWorktreeTtl: hour / 1000,
      salvageTtl: 7_776_000,
      maxParallelJobs: 1,
      maxQueuedJobs: 1,
      gitTimeout: 1,
    },
    now: () => new Date(scene.now),
    log,
    closing: closing.signal,
  };
  const worktrees = createWorktrees(deps as Dependencies);
  const tidy = (): Promise<void> => worktrees.applyRetention(new AbortController().signal);
  return { scene, id, records, onDisk, worktrees, locks, closing, tidy };
};

const use = (over: Partial<WorktreeUse>): WorktreeUse => ({
  jobId: randomUUID(),
  status: "succeeded",
  unsettled: false,
  ended: start,
  ...over,
});

test("a prepared worktree stays as long as a job waits for it, and its time after its last job's end", async () => {
  const { scene, id, records, tidy } = await world();
  scene.now = start + 2 * hour;
  scene.uses = [use({ status: "queued", ended: null })];
  await tidy();
  scene.uses = [use({ ended: scene.now, unsettled: true })];
  await tidy();
  scene.uses = [use({ ended: scene.now })];
  scene.now += hour - 1;
  await tidy();
  expect(scene.removed).toBe(0);
  scene.now += 1;
  await tidy();
  expect(scene.removed).toBe(1);
  expect(await records.get(id)).toMatchObject({ status: "removed", removing: false });
});

test("what was removed is remembered for a day", async () => {
  const { scene, id, records, tidy } = await world();
  scene.now = start + hour;
  await tidy();
  scene.now += 24 * hour - 1;
  await tidy();
  expect(await records.get(id)).not.toBeNull();
  scene.now += 1;
  await tidy();
  expect(await records.get(id)).toBeNull();
});

test("a removal that fails is tried again, less and less often", async () => {
  const { scene, tidy } = await world({ removalFails: true });
  scene.now = start + hour;
  for (let second = 0; second < 60; second += 1) {
    await tidy();
    scene.now += 1000;
  }
  // At 0, 1, 3, 7, 15 and 31 seconds.
  expect(scene.tries).toBe(6);
});

test("the end of the service does not wait for a removal that waits for a repository's lock", async () => {
  const waiting = Promise.withResolvers<AbortSignal>();
  const salvage: Repos["salvage"] = (_worktree, _name, signal) => {
    waiting.resolve(signal);
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
  };
  const { scene, closing, tidy } = await world({ repos: { isPushed: async () => false, salvage } });
  scene.now = start + hour;
  const round = tidy();
  const signal = await waiting.promise;
  closing.abort();
  expect(signal.aborted).toBe(true);
  await round;
  expect(scene.removed).toBe(0);
});

test("a worktree whose removal has begun is not said to be usable, nor to be lost", () => {
  const known = (record: Partial<WorktreeRecord>, onDisk: object | null): WorktreeFacts => ({
    id: "a",
    record: sampleWorktree({ status: "ready", ...record }),
    onDisk: onDisk as WorktreeOnDisk | null,
    uses: [],
    removing: record.removing ?? false,
    home: "/worktrees/a",
    otherHost: null,
    about: {} as WorktreeFacts["about"],
  });
  const onDisk = { ready: true, directoryExists: true };
  expect(worktreeStatus(known({}, onDisk)).status).toBe("ready");
  expect(worktreeStatus(known({ removing: true }, onDisk)).status).toBe("failed");
  expect(worktreeStatus(known({ removing: true }, null)).status).toBe("removed");
  expect(worktreeStatus(known({}, null)).status).toBe("failed");
});

/** A prepared worktree, and how often it was measured. */
const measuredWorld = async (pushed = true) => {
  const counts = { size: 0, pushed: 0 };
  const worktreeSize = async (): Promise<number> => (counts.size += 1);
  const isPushed = async (): Promise<boolean> => ((counts.pushed += 1), pushed);
  const made = await world({ repos: { worktreeSize, isPushed } });
  const list = async () => (await made.worktrees.list({ limit: 100, cursor: "" })).worktrees;
  return { ...made, counts, list };
};

test("a list measures a worktree once, and again only when something can have changed; one that is asked for is measured anew", async () => {
  const { scene, id, counts, onDisk, worktrees, list } = await measuredWorld();
  const at = new Date(start).toISOString();
  for (let day = 0; day < 3; day += 1) {
    scene.now = start + day * 24 * hour;
    expect(await list()).toMatchObject([{ size_bytes: 1, pushed: true, measured_at: at }]);
  }
  expect(counts).toEqual({ size: 1, pushed: 1 });
  // Git, or a person, has changed something: the answer is what is known, and the next one knows more.
  onDisk.changed = "2";
  expect(await list()).toMatchObject([{ size_bytes: 1, measured_at: at }]);
  const later = new Date(scene.now).toISOString();
  await until(async () => (await list())[0]?.measured_at === later);
  // A job has worked in it.
  scene.uses = [use({ ended: scene.now })];
  await list();
  await until(async () => (await list())[0]?.size_bytes === 3);
  expect(counts).toEqual({ size: 3, pushed: 3 });
  scene.now += 60_000;
  expect(await worktrees.get(id)).toMatchObject({ size_bytes: 4 });
  expect(await worktrees.get(id)).toMatchObject({ size_bytes: 4 });
});

test("who asks for one worktree waits for no others; the disk says how many are not measured yet", async () => {
  const stuck = Promise.withResolvers<number>();
  let measured = 0;
  const { id, scene, worktrees } = await world({
    repos: {
      cacheUsage: async () => [],
      readWorktree: async (name) => ({ ...onDiskOf(name), changed: "1" }),
      worktreeSize: ({ path }) => (path.endsWith("lib9") ? Promise.resolve((measured += 1)) : stuck.promise),
    },
  });
  scene.further = Array.from({ length: 10 }, (_, n) => `${id}-lib${n}`);
  const list = () => worktrees.list({ limit: 100, cursor: "" });
  expect((await list()).worktrees.every(({ measured_at: at }) => at === null)).toBe(true);
  const usages = Promise.all([worktrees.usage(), worktrees.usage()]);
  expect(await worktrees.get(`${id}-lib9`)).toMatchObject({ size_bytes: 1, pushed: true });
  const inAll = (all: RepositoryUsage[]) => all.reduce((sum, each) => sum + each.unmeasured, 0);
  expect((await usages).map(inAll)).toEqual([10, 10]);
  const trial = { paths: `${id}-lib9`, max_age_hours: 0, force: false, dry_run: true };
  expect(await worktrees.cleanup(trial, { progress: () => undefined })).toMatchObject({ removed: 1 });
  stuck.resolve(5);
  await until(async () => inAll(await worktrees.usage()) === 0);
  const sizes = (await list()).worktrees.map(({ size_bytes: size }) => size);
  expect(sizes).toEqual([...Array.from({ length: 10 }, () => 5), 2]);
  // The list found it measured when its turn came.
  expect(measured).toBe(2);
});

test("only who removes a worktree looks for the ignored work in it", async () => {
  let looks = 0;
  const ignored = ["secret.env", "gone.env", "\xe4.env"];
  const { id, worktrees } = await world({
    repos: {
      readWorktree: async (name) => ({ ...onDiskOf(name), ignored }),
      worktreeSize: async () => 1,
      ignoredStill: async (_worktree, paths) => ((looks += 1), paths.filter((path) => path !== "gone.env")),
    },
  });
  await worktrees.list({ limit: 100, cursor: "" });
  await worktrees.get(id);
  expect(looks).toBe(0);
  for (const dry_run of [true, false]) {
    const asked = { paths: id, max_age_hours: 0, force: false, dry_run };
    const { results } = await worktrees.cleanup(asked, { progress: () => undefined });
    expect(results[0]?.error).toMatch(/ignores \(secret\.env, .\.env\)/);
  }
  expect(looks).toBe(2);
});

test("what the remote did not have may be there by now; while a job is at work nobody else's git runs in the worktree", async () => {
  const { scene, counts, list } = await measuredWorld(false);
  await list();
  scene.now += 599_000;
  await list();
  expect(counts.pushed).toBe(1);
  scene.now += 2000;
  await list();
  await until(() => counts.pushed === 2);
  scene.uses = [use({ status: "running", unsettled: true, ended: null })];
  await list();
  await until(() => counts.size === 3);
  expect(await list()).toMatchObject([{ status: "in_use", pushed: null }]);
  expect(counts.pushed).toBe(2);
});

test("a further repository's worktree is not measured while its job is at work, or somebody has the worktree of that", async () => {
  const { scene, id, counts, onDisk, worktrees, locks } = await measuredWorld();
  scene.further = [`${id}-lib`];
  onDisk.worktree.worktreeId = `${id}-lib`;
  scene.uses = [use({ status: "running", unsettled: true, ended: null })];
  const get = () => worktrees.get(`${id}-lib`);
  expect(await get()).toMatchObject({ pushed: null });
  scene.uses = [];
  await using held = await locks.take(lockOf.worktree(id));
  expect(await get()).toMatchObject({ pushed: null });
  expect(counts.pushed).toBe(0);
  await held?.release();
  scene.now += 10_000;
  expect(await get()).toMatchObject({ pushed: true });
});

test("a list comes in pages, oldest first", async () => {
  const { scene, id, worktrees } = await measuredWorld();
  scene.further = Array.from({ length: 4 }, (_, n) => `${id}-lib${n}`);
  const seen: string[] = [];
  let cursor: string | null = "";
  for (let pages = 0; cursor !== null; pages += 1) {
    expect(pages).toBeLessThan(3);
    const { worktrees: page, next } = await worktrees.list({ limit: 2, cursor });
    seen.push(...page.map(({ worktree_id }) => worktree_id));
    cursor = next;
  }
  expect(seen.toSorted()).toEqual([id, ...scene.further]);
  await expect(worktrees.list({ limit: 2, cursor: "../x" })).rejects.toMatchObject({
    code: "invalid_request",
  });
});
