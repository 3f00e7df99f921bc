import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sampleWorktree } from "../../test/ports/worktree-record-sample.ts";
import { worktreeStoreSuite } from "../../test/ports/worktree-store-suite.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createLog } from "../lib/log.ts";
import { openFilesRecords } from "./files-records.ts";
import { createWorktreeStore, worktreeKind } from "./worktree-store.ts";

const log = createLog("silent", (text) => text);
const now = (): Date => new Date();
const openIn = async (directory: string) =>
  createWorktreeStore(await openFilesRecords(worktreeKind, { directory, now, log }));

worktreeStoreSuite("files", {
  open: async () => {
    const directory = await temporaryDirectory();
    return { store: await openIn(directory), reopen: () => openIn(directory) };
  },
});

test("torn and foreign files are skipped and not deleted, temporary files of a crashed write are", async () => {
  const directory = await temporaryDirectory();
  const store = await openIn(directory);
  const good = sampleWorktree();
  await store.create(good);
  const torn = sampleWorktree();
  await writeFile(join(directory, `${torn.worktree_id}.json`), JSON.stringify(torn).slice(0, 100));
  await writeFile(join(directory, `${sampleWorktree().worktree_id}.json`), JSON.stringify(sampleWorktree()));
  await writeFile(join(directory, "notes.json"), "{}");
  await writeFile(join(directory, `.${good.worktree_id}.json.77.1.tmp`), "half");
  await mkdir(join(directory, `${sampleWorktree().worktree_id}.json`));
  expect(await (await openIn(directory)).list()).toEqual([good]);
  const names = await readdir(directory);
  expect(names).toContain(`${torn.worktree_id}.json`);
  expect(names.filter((name) => name.endsWith(".tmp"))).toEqual([]);
});

test("a missing directory makes writes fail with store_unavailable, and they work again when it is back", async () => {
  const directory = join(await temporaryDirectory(), "worktrees");
  const store = await openIn(directory);
  const record = sampleWorktree();
  const { worktree_id: id } = record;
  await store.create(record);
  await rename(directory, `${directory}-away`);
  await writeFile(directory, "");
  const refused = { code: "store_unavailable" };
  await expect(store.create(sampleWorktree())).rejects.toMatchObject(refused);
  await expect(store.update(id, ["preparing"], { status: "ready" })).rejects.toMatchObject(refused);
  await expect(store.remove(id)).rejects.toMatchObject(refused);
  expect(await store.list()).toEqual([record]);
  await rm(directory);
  await rename(`${directory}-away`, directory);
  expect(await store.update(id, ["preparing"], { status: "ready" })).toMatchObject({ status: "ready" });
});
