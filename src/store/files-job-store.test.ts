import { execFile } from "node:child_process";
import { chmod, mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createLog } from "../lib/log.ts";
import { jobStoreSuite } from "../../test/ports/job-store-suite.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { openFilesJobStore } from "../../test/open-stores.ts";

const log = createLog("silent", (text) => text);
const openIn = (directory: string) => openFilesJobStore(directory, log);

jobStoreSuite("files", {
  open: async () => {
    const directory = await temporaryDirectory();
    return { store: await openIn(directory), reopen: () => openIn(directory) };
  },
});

test("torn, empty and foreign files are skipped and not deleted, temporary files of a crashed write are", async () => {
  const directory = await temporaryDirectory();
  const store = await openIn(directory);
  const good = sampleRecord();
  await store.create(good);
  const torn = sampleRecord();
  await writeFile(join(directory, `${torn.id}.json`), JSON.stringify(torn).slice(0, 300));
  await writeFile(join(directory, `${sampleRecord().id}.json`), "");
  await writeFile(
    join(directory, `${sampleRecord().id}.json`),
    JSON.stringify({ ...sampleRecord(), status: "odd" }),
  );
  await writeFile(join(directory, "notes.json"), "{}");
  await writeFile(join(directory, `.${good.id}.json.77.1.tmp`), "half");
  await mkdir(join(directory, `${sampleRecord().id}.json`));
  const again = await openIn(directory);
  expect((await again.list({ limit: 10, status: "", cursor: "" })).records).toEqual([good]);
  const names = await readdir(directory);
  expect(names).toContain(`${torn.id}.json`);
  expect(names.filter((name) => name.endsWith(".tmp"))).toEqual([]);
});

test("a missing directory makes writes fail with store_unavailable, and they work again when it is back", async () => {
  const directory = join(await temporaryDirectory(), "jobs");
  const store = await openIn(directory);
  const record = sampleRecord();
  await store.create(record);
  await rename(directory, `${directory}-away`);
  await expect(store.create(sampleRecord())).rejects.toMatchObject({ code: "store_unavailable" });
  await expect(store.update(record.id, { status: ["queued"] }, { status: "running" })).rejects.toMatchObject({
    code: "store_unavailable",
  });
  expect((await store.get(record.id))?.status).toBe("queued");
  await rename(`${directory}-away`, directory);
  expect((await store.update(record.id, { status: ["queued"] }, { status: "running" }))?.status).toBe(
    "running",
  );
});

test("record files can be read by their owner only", async () => {
  const directory = await temporaryDirectory();
  await chmod(directory, 0o755);
  const store = await openIn(directory);
  const record = sampleRecord();
  await store.create(record);
  const { mode } = await stat(join(directory, `${record.id}.json`));
  expect(mode & 0o777).toBe(0o600);
});

test.each([
  ["is deleted", (file: string) => rm(file)],
  ["holds garbage", (file: string) => writeFile(file, "garbage")],
  ["is a named pipe", (file: string) => rm(file).then(() => promisify(execFile)("mkfifo", [file]))],
])("an ended job whose file %s is no more, and the others are listed", async (_what, spoil) => {
  const directory = await temporaryDirectory();
  const store = await openIn(directory);
  const ended = { status: "failed", ended_at: "2026-01-01T00:00:00.000Z" } as const;
  const records = [sampleRecord(ended), sampleRecord(ended)];
  for (const record of records) await store.create(record);
  const [spoilt, good] = records;
  await spoil(join(directory, `${spoilt?.id}.json`));
  for (const each of [store, await openIn(directory)]) {
    expect((await each.list({ limit: 10, status: "", cursor: "" })).records).toEqual([good]);
    expect(await each.get(spoilt?.id ?? "")).toBeNull();
  }
});
