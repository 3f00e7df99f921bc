import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import {
  completionStoreSuite,
  completionTtl,
  sampleCompletion,
} from "../../test/ports/completion-store-suite.ts";
import {
  conversationKey,
  conversationStoreSuite,
  conversationTtl,
  sampleConversation,
} from "../../test/ports/conversation-store-suite.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { jobStoreSuite } from "../../test/ports/job-store-suite.ts";
import { secretStoreSuite } from "../../test/ports/secret-store-suite.ts";
import { visibilityStoreSuite } from "../../test/ports/visibility-store-suite.ts";
import { sampleWorktree } from "../../test/ports/worktree-record-sample.ts";
import { worktreeStoreSuite } from "../../test/ports/worktree-store-suite.ts";
import { openFilesJobStore } from "../../test/open-stores.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { everythingVisible } from "../contract/visibility.ts";
import { createLog } from "../lib/log.ts";
import { completionKind, createCompletionStore } from "./completion-store.ts";
import { conversationKind, createConversationStore } from "./conversation-store.ts";
import { openFilesRecords } from "./files-records.ts";
import { jobKind } from "./job-store.ts";
import type { Kind } from "./records.ts";
import { createSecretStore, secretKind } from "./secret-store.ts";
import { createTaskFiles, taskFilesKind } from "./task-files.ts";
import { createVisibilityStore, visibilityKind } from "./visibility-store.ts";
import { createWorktreeStore, worktreeKind } from "./worktree-store.ts";

const lines: string[] = [];
const log = createLog("info", (line) => (lines.push(line), ""));
const soon = { now: new Date("2026-01-01T00:00:01Z") };
const refused = { code: "store_unavailable" };

const recordsOf = <T extends object>(kind: Kind<T>, directory: string, clock = soon) =>
  openFilesRecords(kind, { directory, now: () => clock.now, log });
const jobsIn = (directory: string) => openFilesJobStore(directory, log);
const completionsIn = async (directory: string, clock = soon) =>
  createCompletionStore(await recordsOf(completionKind(completionTtl), directory, clock));
const conversationsIn = async (directory: string, clock = soon) =>
  createConversationStore(await recordsOf(conversationKind(conversationTtl), directory, clock));
const visibilitiesIn = async (directory: string) =>
  createVisibilityStore(await recordsOf(visibilityKind, directory));
const worktreesIn = async (directory: string) =>
  createWorktreeStore(await recordsOf(worktreeKind, directory));

/** There is one server per directory: no rival but the store itself. */
const opened = async <Store>(open: (directory: string) => Promise<Store>) => {
  const directory = join(await temporaryDirectory(), "records");
  const store = await open(directory);
  return { store, rival: store, reopen: () => open(directory) };
};

jobStoreSuite("files", { open: () => opened(jobsIn) });
completionStoreSuite("files", { open: (clock) => opened((directory) => completionsIn(directory, clock)) });
conversationStoreSuite("files", {
  open: (clock) => opened((directory) => conversationsIn(directory, clock)),
});
secretStoreSuite("files", {
  open: () => opened(async (directory) => createSecretStore(await recordsOf(secretKind, directory))),
});
visibilityStoreSuite("files", { open: () => opened(visibilitiesIn) });
worktreeStoreSuite("files", { open: () => opened(worktreesIn) });

type Sampled = { kind: Kind<object>; sample: () => [id: string, record: object] };

const named = <T extends object>(kind: Kind<T>, sample: () => [string, T]): Sampled => ({
  kind: kind as unknown as Kind<object>,
  sample,
});

describe.each(
  [
    named(jobKind(null), () => {
      const record = sampleRecord();
      return [record.id, record];
    }),
    named(completionKind(completionTtl), () => {
      const uuid = randomUUID();
      return [uuid, sampleCompletion({ uuid })];
    }),
    named(conversationKind(conversationTtl), () => [conversationKey(randomUUID()), sampleConversation()]),
    named(worktreeKind, () => {
      const record = sampleWorktree();
      return [record.worktree_id, record];
    }),
  ].map((each) => ({ ...each, noun: each.kind.noun })),
)("a $noun in a file", ({ kind, sample }) => {
  test("torn, empty and foreign files are skipped with a warning and not deleted, temporary files of a crashed write are", async () => {
    const directory = await temporaryDirectory();
    const [good, record] = sample();
    expect(await (await recordsOf(kind, directory)).create(good, record)).toBe("created");
    const [torn, text] = sample();
    const [empty] = sample();
    const [nested] = sample();
    await writeFile(join(directory, `${torn}.json`), JSON.stringify(text).slice(0, 80));
    await writeFile(join(directory, `${empty}.json`), "");
    await writeFile(join(directory, "notes.json.txt"), JSON.stringify(record));
    await mkdir(join(directory, `${nested}.json`));
    const before = await readdir(directory);
    await writeFile(join(directory, `.${good}.json.77.1.tmp`), "half");
    lines.length = 0;
    const again = await recordsOf(kind, directory);
    for (let time = 0; time < 2; time += 1) {
      expect(await again.get(good)).toEqual(record);
      for (const id of [torn, empty, nested]) expect(await again.get(id)).toBeNull();
    }
    for (const id of [torn, empty, nested]) expect(lines.filter((line) => line.includes(id))).toHaveLength(1);
    expect((await readdir(directory)).toSorted()).toEqual(before.toSorted());
  });

  test("a missing directory makes writes fail with store_unavailable, and they work again when it is back", async () => {
    const directory = join(await temporaryDirectory(), "records");
    const records = await recordsOf(kind, directory);
    const [id, record] = sample();
    await records.create(id, record);
    await rename(directory, `${directory}-away`);
    await writeFile(directory, "");
    await expect(records.create(...sample())).rejects.toMatchObject(refused);
    await expect(records.change(id, (now) => ({ ...now, pod_name: "x" }))).rejects.toMatchObject(refused);
    await rm(directory);
    await rename(`${directory}-away`, directory);
    expect(await records.get(id)).toEqual(record);
    expect(await records.change(id, (now) => ({ ...now }))).toMatchObject({ after: record });
  });
});

test("record files can be read by their owner only", async () => {
  const directory = await temporaryDirectory();
  await chmod(directory, 0o755);
  const record = sampleRecord();
  await (await jobsIn(directory)).create(record);
  const { mode } = await stat(join(directory, `${record.id}.json`));
  expect(mode & 0o777).toBe(0o600);
});

test.each([
  ["is deleted", (file: string) => rm(file)],
  ["holds garbage", (file: string) => writeFile(file, "garbage")],
  ["is a named pipe", (file: string) => rm(file).then(() => promisify(execFile)("mkfifo", [file]))],
])("an ended job whose file %s is no more, and the others are listed", async (_what, spoil) => {
  const directory = await temporaryDirectory();
  const store = await jobsIn(directory);
  const ended = { status: "failed", ended_at: "2026-01-01T00:00:00.000Z" } as const;
  const records = [sampleRecord(ended), sampleRecord(ended)];
  for (const record of records) await store.create(record);
  const [spoilt, good] = records;
  await spoil(join(directory, `${spoilt?.id}.json`));
  for (const each of [store, await jobsIn(directory)]) {
    expect((await each.list({ limit: 10, status: "", cursor: "" })).records).toEqual([good]);
    expect(await each.get(spoilt?.id ?? "")).toBeNull();
  }
});

test("no file of a completion is hidden or has a colon in its name", async () => {
  const directory = await temporaryDirectory();
  const store = await completionsIn(directory);
  for (const uuid of [".", "..", "a:b.c"]) await store.create(sampleCompletion({ uuid }));
  expect((await readdir(directory)).toSorted()).toEqual(["=.json", "=..json", "a+b.c.json"].toSorted());
});

test("a final completion is unknown its time to live after its end, and the next expiry deletes its file", async () => {
  const clock = { now: soon.now };
  const directory = await temporaryDirectory();
  const store = await completionsIn(directory, clock);
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

test("a visibility is in a file of the agent's name; torn, it counts as never set, with one warning, and can be replaced", async () => {
  const directory = await temporaryDirectory();
  const [store, file] = [await visibilitiesIn(directory), join(directory, "reviewer.json")];
  for (let time = 0; time < 2; time += 1) {
    await store.change("reviewer", () => everythingVisible);
    expect(JSON.parse(await readFile(file, "utf8"))).toEqual(everythingVisible);
    await writeFile(file, '{"show_thinking": tr');
    lines.length = 0;
    for (let look = 0; look < 2; look += 1) expect(await store.get("reviewer")).toBeNull();
    expect(lines.length).toBeLessThanOrEqual(1);
  }
});

test("a conversation whose file is damaged while the service runs counts as missing, with one warning", async () => {
  const directory = await temporaryDirectory();
  const [store, key] = [await conversationsIn(directory), conversationKey("x")];
  await store.put(key, sampleConversation());
  await writeFile(join(directory, `${key}.json`), "garbage");
  lines.length = 0;
  for (let time = 0; time < 2; time += 1) expect(await store.get(key)).toBeNull();
  expect(lines).toHaveLength(1);
  await store.put(key, sampleConversation());
  expect(await store.get(key)).toEqual(sampleConversation());
});

test("the files of a job are kept until they are removed", async () => {
  const store = createTaskFiles(await recordsOf(taskFilesKind, await temporaryDirectory()));
  const [id, files] = [randomUUID(), [{ name: "a.bin", content: "AAAA", encoding: "base64" as const }]];
  expect(await store.get(id)).toBeNull();
  // A repeated submission stores them again.
  for (let time = 0; time < 2; time += 1) await store.put(id, files);
  expect(await store.get(id)).toEqual(files);
  await store.remove(id);
  expect(await store.get(id)).toBeNull();
});
