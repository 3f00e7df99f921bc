import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  completionStoreSuite,
  completionTtl,
  sampleCompletion,
} from "../../test/ports/completion-store-suite.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createLog } from "../lib/log.ts";
import { completionKind, createCompletionStore } from "./completion-store.ts";
import { openFilesRecords } from "./files-records.ts";

const lines: string[] = [];
const log = createLog("info", (line) => (lines.push(line), ""));
const soon = { now: new Date("2026-01-01T00:00:01Z") };
const openIn = async (directory: string, clock = soon) =>
  createCompletionStore(
    await openFilesRecords(completionKind(completionTtl), { directory, now: () => clock.now, log }),
  );

completionStoreSuite("files", {
  open: async (clock) => {
    const directory = await temporaryDirectory();
    const store = await openIn(directory, clock);
    // There is one server per directory.
    return { store, rival: store, reopen: () => openIn(directory, clock) };
  },
});

test("torn and foreign files are skipped with a warning and not deleted, temporary files of a crashed write are", async () => {
  const directory = await temporaryDirectory();
  const store = await openIn(directory);
  await store.create(sampleCompletion({ uuid: "good" }));
  await writeFile(
    join(directory, "torn.json"),
    JSON.stringify(sampleCompletion({ uuid: "torn" })).slice(0, 90),
  );
  await writeFile(join(directory, "other.json"), JSON.stringify(sampleCompletion({ uuid: "good" })));
  await mkdir(join(directory, "directory.json"));
  await writeFile(join(directory, ".good.json.77.1.tmp"), "half");
  lines.length = 0;
  const again = await openIn(directory);
  expect(lines).toHaveLength(3);
  expect((await again.list({ limit: 10, status: "all" })).map(({ uuid }) => uuid)).toEqual(["good"]);
  expect((await readdir(directory)).toSorted()).toEqual([
    "directory.json",
    "good.json",
    "other.json",
    "torn.json",
  ]);
});

test("no file is hidden or has a colon in its name", async () => {
  const directory = await temporaryDirectory();
  const store = await openIn(directory);
  for (const uuid of [".", "..", "a:b.c"]) await store.create(sampleCompletion({ uuid }));
  expect((await readdir(directory)).toSorted()).toEqual(["=.json", "=..json", "a+b.c.json"].toSorted());
});

test("a final completion is unknown its time to live after its end, and the next expiry deletes its file", async () => {
  const clock = { now: soon.now };
  const directory = await temporaryDirectory();
  const store = await openIn(directory, clock);
  await store.create(sampleCompletion());
  await store.update("one", "e1", { status: "failed", ended_at: "2026-01-01T00:00:01.000Z" });
  clock.now = new Date(soon.now.getTime() + completionTtl * 1000 - 1);
  await store.expire(clock.now);
  expect(await store.get("one")).toMatchObject({ status: "failed" });
  clock.now = new Date(soon.now.getTime() + completionTtl * 1000);
  expect(await store.get("one")).toBeNull();
  expect(await store.list({ limit: 10, status: "all" })).toEqual([]);
  await store.expire(clock.now);
  expect(await readdir(directory)).toEqual([]);
});

test.each([
  ["is deleted", (file: string) => rm(file)],
  ["holds garbage", (file: string) => writeFile(file, "garbage")],
])("one whose file %s is no more, and the others are listed", async (_what, spoil) => {
  const directory = await temporaryDirectory();
  const store = await openIn(directory);
  for (const uuid of ["one", "two"]) {
    await store.create(sampleCompletion({ uuid }));
    await store.update(uuid, "e1", { status: "completed", ended_at: "2026-01-01T00:00:01.000Z" });
  }
  await spoil(join(directory, "one.json"));
  expect((await store.list({ limit: 10, status: "all" })).map(({ uuid }) => uuid)).toEqual(["two"]);
  expect(await store.get("one")).toBeNull();
  expect(await store.create(sampleCompletion())).toBe(true);
});

test("a missing directory makes writes fail with store_unavailable, and nothing is half done", async () => {
  const directory = join(await temporaryDirectory(), "completions");
  const store = await openIn(directory);
  await store.create(sampleCompletion());
  await rename(directory, `${directory}-away`);
  const refused = { code: "store_unavailable" };
  await expect(store.create(sampleCompletion({ uuid: "two" }))).rejects.toMatchObject(refused);
  await expect(store.update("one", "e1", { status: "running" })).rejects.toMatchObject(refused);
  expect(await store.get("one")).toMatchObject({ status: "queued" });
  await rename(`${directory}-away`, directory);
  expect(await store.update("one", "e1", { status: "running" })).toBe(true);
});
