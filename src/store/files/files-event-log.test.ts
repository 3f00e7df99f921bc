import { appendFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { JobEvent } from "../../contract/event.ts";
import { createLog } from "../../lib/log.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { until } from "../../../test/until.ts";
import { openFilesEventLog } from "./files-event-log.ts";

const openLog = async (directory: string, maxBytes = 1_000_000) =>
  await openFilesEventLog({
    directory,
    maxBytes,
    log: createLog("silent", (text) => text),
    now: () => new Date(0),
  });

const text = (value: string) => ({ type: "text" as const, block: 0, text: value });

const collect = async (events: AsyncIterable<JobEvent>): Promise<JobEvent[]> => {
  const all: JobEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
};

const never = new AbortController().signal;

test("a reader gets what was written before it came and what comes after, in order and numbered from 1", async () => {
  const log = await openLog(await temporaryDirectory());
  const id = randomUUID();
  log.append(id, 1, text("a"));
  const reading = collect(log.read(id, 0, never));
  log.append(id, 1, text("b"));
  log.append(id, 1, text("c"));
  await log.finish(id);
  expect((await reading).map((event) => [event.seq, event.type === "text" && event.text])).toEqual([
    [1, "a"],
    [2, "b"],
    [3, "c"],
  ]);
});

test("a reader that names the last event it saw gets exactly those that follow", async () => {
  const log = await openLog(await temporaryDirectory());
  const id = randomUUID();
  for (let n = 1; n <= 200; n += 1) log.append(id, 1, text(String(n)));
  await log.finish(id);
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 210 }), async (after) => {
      const seen = await collect(log.read(id, after, never));
      expect(seen.map((event) => event.seq)).toEqual(
        Array.from({ length: Math.max(0, 200 - after) }, (_, i) => after + i + 1),
      );
    }),
    { numRuns: 20 },
  );
});

test("numbering goes on after a restart, and a line that the crash tore is cut off", async () => {
  const directory = await temporaryDirectory();
  const id = randomUUID();
  const before = await openLog(directory);
  before.append(id, 1, text("one"));
  await before.finish(id);
  await appendFile(join(directory, `${id}.ndjson`), '{"seq":2,"at":"19');
  const after = await openLog(directory);
  after.append(id, 2, text("two"));
  await after.finish(id);
  expect((await collect(after.read(id, 0, never))).map((event) => event.seq)).toEqual([1, 2]);
  expect((await readFile(join(directory, `${id}.ndjson`), "utf8")).split("\n")).toHaveLength(3);
});

test("past its size the log leaves out text but keeps tool calls, says so once, and stays readable", async () => {
  const log = await openLog(await temporaryDirectory(), 65_536);
  const id = randomUUID();
  for (let n = 0; n < 300; n += 1) log.append(id, 1, text("x".repeat(1000)));
  log.append(id, 1, { type: "tool_use", id: "t", name: "Bash", input: { command: "ls" }, parent: null });
  await log.finish(id);
  const events = await collect(log.read(id, 0, never));
  expect(events.filter((event) => event.type === "warning")).toHaveLength(1);
  expect(events.filter((event) => event.type === "text").length).toBeLessThan(70);
  expect(events.at(-1)?.type).toBe("tool_use");
  expect(events.map((event) => event.seq)).toEqual(events.map((_, at) => at + 1));
});

test("an aborted reader ends although events are still to come", async () => {
  const log = await openLog(await temporaryDirectory());
  const id = randomUUID();
  const controller = new AbortController();
  log.append(id, 1, text("a"));
  const seen: JobEvent[] = [];
  const reading = (async () => {
    for await (const event of log.read(id, 0, controller.signal)) seen.push(event);
  })();
  await until(() => seen.length === 1);
  controller.abort();
  await reading;
  await log.close();
});

test("ids that are no job ids name no file", async () => {
  const log = await openLog(await temporaryDirectory());
  expect(await collect(log.read("../../etc/passwd", 0, never))).toEqual([]);
});

test("the beginning of a log is there for who reads, comes first, comes once, and survives being begun again", async () => {
  const directory = await temporaryDirectory();
  const id = randomUUID();
  const before = await openLog(directory);
  before.begin(id, "2026-01-01T00:00:00.000Z");
  const [first] = await firstOf(before.read(id, 0, never));
  expect(first).toMatchObject({ seq: 1, type: "stage", stage: "queued", at: "2026-01-01T00:00:00.000Z" });
  await before.close();
  const after = await openLog(directory);
  after.begin(id, "2026-01-01T00:00:00.000Z");
  after.append(id, 1, text("a"));
  await after.finish(id);
  expect((await collect(after.read(id, 0, never))).map((event) => event.type)).toEqual(["stage", "text"]);
});

test("a log that a crash kept from being written is begun by the next start", async () => {
  const directory = await temporaryDirectory();
  const id = randomUUID();
  (await openLog(directory)).begin(id, "2026-01-01T00:00:00.000Z");
  const after = await openLog(directory);
  after.begin(id, "2026-01-01T00:00:00.000Z");
  after.append(id, 1, text("a"));
  await after.finish(id);
  expect((await collect(after.read(id, 0, never))).map((event) => event.seq)).toEqual([1, 2]);
});

const firstOf = async (events: AsyncIterable<JobEvent>): Promise<JobEvent[]> => {
  for await (const event of events) return [event];
  return [];
};
