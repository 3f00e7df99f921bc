import { appendFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { createLog } from "../../lib/log.ts";
import { collect, eventLogSuite, never, numbers, text } from "../../../test/ports/event-log-suite.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { openFilesEventLog } from "./files-event-log.ts";

const openLog = async (directory: string, maxBytes = 1_000_000) =>
  await openFilesEventLog({
    directory,
    maxBytes,
    log: createLog("silent", (line) => line),
    now: () => new Date(0),
  });

eventLogSuite("files", {
  open: async ({ maxBytes }) => {
    const directory = await temporaryDirectory();
    return {
      log: await openLog(directory, maxBytes),
      jobs: new Map(),
      reopen: () => openLog(directory, maxBytes),
    };
  },
});

test("a line that a crash tore is cut off", async () => {
  const directory = await temporaryDirectory();
  const id = randomUUID();
  const before = await openLog(directory);
  before.append(id, 1, text("one"));
  await before.finish(id);
  await appendFile(join(directory, `${id}.ndjson`), '{"seq":2,"at":"19');
  const after = await openLog(directory);
  after.append(id, 2, text("two"));
  await after.finish(id);
  expect(numbers(await collect(after.read(id, 0, never)))).toEqual([1, 2]);
  expect((await readFile(join(directory, `${id}.ndjson`), "utf8")).split("\n")).toHaveLength(3);
});
