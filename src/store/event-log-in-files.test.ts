import { appendFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { createLog } from "../lib/log.ts";
import {
  collect,
  eventLogSuite,
  never,
  numbers,
  text,
  type KnownJobs,
} from "../../test/ports/event-log-suite.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createEventLog, eventLogFormat } from "./event-log.ts";
import { createLocalLogs } from "./local-logs.ts";

const now = (): Date => new Date(0);

const openLog = (directory: string, { maxBytes = 1_000_000, jobs = new Map() as KnownJobs } = {}) =>
  createEventLog({
    logs: createLocalLogs(eventLogFormat, { directory, now }),
    maxBytes,
    ttlSeconds: 3600,
    describe: async (jobId) => jobs.get(jobId) ?? null,
    log: createLog("silent", (line) => line),
    now,
  });

eventLogSuite("files", {
  open: async ({ maxBytes }) => {
    const directory = await temporaryDirectory();
    const jobs: KnownJobs = new Map();
    const open = () => openLog(directory, { maxBytes, jobs });
    return { log: open(), jobs, reopen: async () => open() };
  },
});

test("a line that a crash tore is cut off", async () => {
  const directory = await temporaryDirectory();
  const id = randomUUID();
  const before = openLog(directory);
  before.append(id, 1, text("one"));
  await before.finish(id);
  await appendFile(join(directory, `${id}.ndjson`), '{"seq":2,"at":"19');
  const after = openLog(directory);
  after.append(id, 2, text("two"));
  await after.finish(id);
  expect(numbers(await collect(after.read(id, 0, never)))).toEqual([1, 2]);
  expect((await readFile(join(directory, `${id}.ndjson`), "utf8")).split("\n")).toHaveLength(3);
});
