import { appendFile, mkdir, readFile } from "node:fs/promises";
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
  upTo,
  type KnownJobs,
} from "../../test/ports/event-log-suite.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createEventLog } from "./event-log.ts";
import { createFileLogs } from "./local-logs.ts";

const now = (): Date => new Date(0);

const lines: string[] = [];

const openLog = (directory: string, { maxBytes = 10_000_000, jobs = new Map() as KnownJobs } = {}) =>
  createEventLog({
    logs: createFileLogs(directory),
    maxBytes,
    ttlSeconds: 3600,
    describe: async (jobId) => jobs.get(jobId) ?? null,
    log: createLog("info", (line) => (lines.push(line), "")),
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
  expect(numbers(await collect(after.read(id, 0, never)))).toEqual([2, 3]);
  expect((await readFile(join(directory, `${id}.ndjson`), "utf8")).split("\n")).toHaveLength(3);
});

test("a reader that stalls while the log grows gets all of it later", async () => {
  const directory = await temporaryDirectory();
  const log = openLog(directory);
  const id = randomUUID();
  log.append(id, 1, text("first"));
  const reading = log.read(id, 0, never)[Symbol.asyncIterator]();
  expect((await reading.next()).value).toMatchObject({ seq: 2 });
  for (let n = 2; n <= 1000; n += 1) log.append(id, 1, text(`${n} ${"x".repeat(n * 5)}`));
  await log.finish(id);
  log.append(id, 1, text("y".repeat(60_000)));
  const rest: unknown[] = [];
  for (let next = await reading.next(); next.done !== true; next = await reading.next()) {
    rest.push(next.value.seq);
    if (rest.length === 1000) await log.finish(id);
  }
  expect(rest).toEqual(upTo(1002, 3));
});

test("a reader gets only events that are in the file", async () => {
  const directory = await temporaryDirectory();
  const log = openLog(directory);
  const id = randomUUID();
  log.append(id, 1, text("0"));
  let count = 0;
  for await (const { seq } of log.read(id, 0, never)) {
    const written = await readFile(join(directory, `${id}.ndjson`), "utf8");
    expect(written.split("\n").length).toBeGreaterThanOrEqual(seq);
    count += 1;
    if (count === 50) await log.finish(id);
    else if (count < 50) log.append(id, 1, text(`${count}`));
  }
  expect(count).toBe(50);
});

test("a log that cannot be written is warned of once and blocks nothing", async () => {
  const directory = await temporaryDirectory();
  const log = openLog(directory);
  const [id, other] = [randomUUID(), randomUUID()];
  await mkdir(join(directory, `${id}.ndjson`));
  lines.length = 0;
  for (let n = 0; n < 3; n += 1) {
    log.append(id, 1, text("lost"));
    await new Promise(setImmediate);
  }
  await log.finish(id);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain("they are missing");
  log.append(other, 1, text("a"));
  await log.finish(other);
  expect(numbers(await collect(log.read(other, 0, never)))).toEqual([2]);
});
