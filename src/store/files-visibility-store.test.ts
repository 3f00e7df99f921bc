import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { visibilityStoreSuite } from "../../test/ports/visibility-store-suite.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { everythingVisible } from "../contract/visibility.ts";
import { createLog } from "../lib/log.ts";
import type { Log } from "../lib/log.ts";
import { openFilesRecords } from "./files-records.ts";
import { createVisibilityStore, visibilityKind } from "./visibility-store.ts";

const silent = createLog("silent", (line) => line);
const now = (): Date => new Date();
const openIn = async (directory: string, log: Log = silent) =>
  createVisibilityStore(await openFilesRecords(visibilityKind, { directory, now, log }));

visibilityStoreSuite("files", {
  open: async () => {
    const directory = join(await temporaryDirectory(), "stream_config");
    const store = await openIn(directory);
    return { store, rival: store, reopen: () => openIn(directory) };
  },
});

test("the file has the agent's name and holds the five flags", async () => {
  const directory = await temporaryDirectory();
  await (await openIn(directory)).change("reviewer", () => everythingVisible);
  expect(JSON.parse(await readFile(join(directory, "reviewer.json"), "utf8"))).toEqual(everythingVisible);
});

test("a torn file counts as never set, with one warning, and can be replaced", async () => {
  const lines: string[] = [];
  const log = createLog("info", (line) => (lines.push(line), ""));
  const directory = await temporaryDirectory();
  const store = await openIn(directory, log);
  await writeFile(join(directory, "a.json"), '{"show_thinking": tr');
  for (let time = 0; time < 2; time += 1) expect(await store.get("a")).toBeNull();
  expect(lines).toHaveLength(1);
  await store.change("a", () => everythingVisible);
  expect(await store.get("a")).toEqual(everythingVisible);
});

test("a directory that cannot be made is store_unavailable", async () => {
  const file = join(await temporaryDirectory(), "file");
  await writeFile(file, "");
  const store = await openIn(join(file, "x"));
  await expect(store.change("a", () => everythingVisible)).rejects.toMatchObject({
    code: "store_unavailable",
  });
});
