import fc from "fast-check";
import { getEventListeners } from "node:events";
import { readdir, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { createTurnLog as createLog, type TurnLog } from "./turn-log.ts";

const never = new AbortController().signal;
const event = (text: string): string => `data: ${text}\n\n`;
const everyEvent = /^(?:data: [^\n]*\n\n)+$/;

const lost = event("lost");

const createTurnLog = (options: Omit<Parameters<typeof createLog>[0], "lost">): TurnLog => {
  const log = createLog({ ...options, lost });
  afterFile(log.dispose);
  return log;
};

/** All that a reader gets, as text, with a pause after each piece. */
const readAll = async (log: TurnLog, pause: () => Promise<void> = async () => {}, signal = never) => {
  const pieces: Buffer[] = [];
  for await (const piece of log.read(signal)) {
    pieces.push(Buffer.from(piece));
    await pause();
  }
  return { text: Buffer.concat(pieces).toString(), pieces };
};

const readRest = async (reader: AsyncIterable<Uint8Array>): Promise<string[]> =>
  (await Array.fromAsync(reader)).map((piece) => Buffer.from(piece).toString());

test("readers of any speed, from the start or late, get the same bytes in pieces of whole events", async () => {
  const directory = await temporaryDirectory();
  const text = fc
    .string({ unit: "grapheme", maxLength: 400 })
    .map((words) => event(words.replaceAll("\n", " ")));
  await fc.assert(
    fc.asyncProperty(fc.array(text, { maxLength: 60 }), fc.nat(60), async (events, joinsAt) => {
      const log = createTurnLog({ directory, memoryBytes: 2048 });
      const pauses = [
        async () => {},
        () => nextTurn(),
        async () => void (await Promise.all([nextTurn(), nextTurn()])),
      ];
      const readers = pauses.map((pause) => readAll(log, pause));
      for (const [index, one] of events.entries()) {
        if (index === joinsAt) readers.push(readAll(log));
        log.append(one);
        if (index % 7 === 0) await nextTurn();
      }
      log.end();
      readers.push(readAll(log));
      for (const { text: got, pieces } of await Promise.all(readers)) {
        expect(got).toBe(events.join(""));
        expect(pieces.filter((piece) => !everyEvent.test(piece.toString()))).toEqual([]);
      }
      await log.dispose();
    }),
    { numRuns: 25 },
  );
});

test("an event that is longer than a piece comes in several, also from the disk", async () => {
  const log = createTurnLog({ directory: await temporaryDirectory(), memoryBytes: 4096 });
  const events = [event("a"), event("ä".repeat(150_000)), event("b")];
  const early = readAll(log);
  for (const one of events) log.append(one);
  await until(() => log.memoryBytes() <= 4096);
  const late = readAll(log);
  log.end();
  for (const { text, pieces } of await Promise.all([early, late])) {
    expect(text === events.join("")).toBe(true);
    expect(pieces.filter(({ length }) => length > 65_536)).toEqual([]);
  }
});

test("what comes from the disk comes in whole events, too", async () => {
  const log = createTurnLog({ directory: await temporaryDirectory(), memoryBytes: 4096 });
  const events = Array.from({ length: 1000 }, (_, number) => event(`${number} ${"x".repeat(number % 400)}`));
  for (const one of events) log.append(one);
  await until(() => log.memoryBytes() <= 4096);
  log.end();
  const { text, pieces } = await readAll(log);
  expect(text).toBe(events.join(""));
  expect(pieces.filter((piece) => !everyEvent.test(piece.toString()))).toEqual([]);
});

test("a reader that keeps up gets what was appended in microtasks, in one piece", async () => {
  const log = createTurnLog({ directory: await temporaryDirectory() });
  const pieces: string[] = [];
  const reading = (async () => {
    for await (const piece of log.read(never)) pieces.push(Buffer.from(piece).toString());
  })();
  const microtasks = async (): Promise<void> => {
    for (let left = 20; left > 0; left -= 1) await Promise.resolve();
  };
  await microtasks();
  log.append(event("one"));
  await microtasks();
  expect(pieces).toEqual([event("one")]);
  log.append(event("two"));
  log.append(event("three"));
  await microtasks();
  expect(pieces).toEqual([event("one"), event("two") + event("three")]);
  log.end();
  await reading;
});

test("100 MB with a reader that stands still go to the disk, not into memory, and it still gets all of it", async () => {
  const directory = await temporaryDirectory();
  const log = createTurnLog({ directory });
  log.append(event("first"));
  const stalled = log.read(never);
  await stalled.next();
  const keepingUp = readAll(log).then(({ pieces }) => pieces.reduce((sum, { length }) => sum + length, 0));
  const chunk = event("x".repeat(9992));
  for (let round = 1; round <= 20; round += 1) {
    for (let count = 0; count < 500; count += 1) log.append(chunk);
    await until(() => log.memoryBytes() <= 256 * 1024);
  }
  log.end();
  const bytes = 20 * 500 * chunk.length + event("first").length;
  expect(bytes).toBeGreaterThanOrEqual(100e6);
  expect(await keepingUp).toBe(bytes);
  let rest = event("first").length;
  for await (const piece of stalled) rest += piece.length;
  expect(rest).toBe(bytes);
  expect(await readdir(directory)).toEqual([]);
  await log.dispose();
});

test("when the disk fails, readers that lag learn it and those that keep up continue", async () => {
  const log = createTurnLog({ directory: join(await temporaryDirectory(), "missing"), memoryBytes: 4096 });
  log.append(event("first"));
  const lagging = log.read(never);
  await lagging.next();
  const keepingUp = readAll(log);
  const events = Array.from({ length: 100 }, (_, number) => event(`${number} ${"x".repeat(200)}`));
  for (const one of events) {
    log.append(one);
    await nextTurn();
  }
  await until(() => log.memoryBytes() <= 4096);
  expect((await readRest(lagging)).at(-1)).toBe(lost);
  expect((await readAll(log)).text).toBe(lost);
  log.end();
  expect((await keepingUp).text).toBe(event("first") + events.join(""));
});

test("what would be more than the most that is kept is lost only to readers that lag", async () => {
  const directory = await temporaryDirectory();
  const log = createTurnLog({ directory, memoryBytes: 4096, maxBytes: 20_000 });
  const keepingUp = readAll(log);
  const events = Array.from({ length: 200 }, (_, number) => event(`${number} ${"x".repeat(200)}`));
  for (const one of events) {
    log.append(one);
    await nextTurn();
  }
  log.end();
  expect((await keepingUp).text).toBe(events.join(""));
  await until(() => log.memoryBytes() <= 4096);
  expect((await readAll(log)).text.endsWith(lost)).toBe(true);
});

test("with a disk that does not take it, even an event larger than the memory reaches only those that keep up", async () => {
  const directory = join(await temporaryDirectory(), "file");
  await writeFile(directory, "");
  const log = createTurnLog({ directory, memoryBytes: 4096 });
  const keepingUp = readAll(log);
  const large = event("x".repeat(200_000));
  log.append(event("one"));
  await nextTurn();
  log.append(large);
  await until(() => log.memoryBytes() === large.length);
  log.append(event("two"));
  log.end();
  expect((await keepingUp).text === event("one") + large + event("two")).toBe(true);
});

test.for([
  ["the disk cannot take", "missing", 2000, 5],
  ["is too much for any disk", "", 1_000_000, 40],
] as const)(
  "what is told at once and %s reaches only those that keep up",
  async ([, name, length, count]) => {
    const directory = join(await temporaryDirectory(), name);
    const log = createTurnLog({ directory, memoryBytes: 4096 });
    let bytes = 0;
    const keepingUp = (async () => {
      for await (const piece of log.read(never)) bytes += piece.length;
    })();
    for (let round = 1; round <= 3; round += 1) {
      for (let one = 0; one < count; one += 1) log.append(event("x".repeat(length)));
      await until(() => log.memoryBytes() <= Math.max(4096, length + 8));
    }
    expect((await readAll(log)).text).toBe(lost);
    log.end();
    await keepingUp;
    expect(bytes).toBe(3 * count * event("x".repeat(length)).length);
  },
);

test("the end wakes all who wait, and what is appended after it is ignored", async () => {
  const log = createTurnLog({ directory: await temporaryDirectory() });
  log.append(event("one"));
  const readers = [readAll(log), readAll(log)];
  await nextTurn();
  log.end();
  log.append(event("two"));
  expect((await Promise.all(readers)).map(({ text }) => text)).toEqual([event("one"), event("one")]);
});

test("an abort ends a reader without an error, waiting or not, and leaves no listener", async () => {
  const log = createTurnLog({ directory: await temporaryDirectory() });
  log.append(event("one"));
  const leaving = new AbortController();
  const reading = readAll(log, undefined, leaving.signal);
  await nextTurn();
  expect(getEventListeners(leaving.signal, "abort")).toHaveLength(1);
  leaving.abort();
  expect((await reading).text).toBe(event("one"));
  expect(getEventListeners(leaving.signal, "abort")).toEqual([]);
  expect((await readAll(log, undefined, leaving.signal)).text).toBe("");
});

test("a reader that leaves in the middle leaves no listener", async () => {
  const log = createTurnLog({ directory: await temporaryDirectory() });
  log.append(event("one"));
  const { signal } = new AbortController();
  const reader = log.read(signal);
  await reader.next();
  await reader.return();
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("a log that was disposed of holds nothing, and readers that are not through learn it", async () => {
  const directory = await temporaryDirectory();
  const log = createTurnLog({ directory, memoryBytes: 4096 });
  log.append(event("x".repeat(50_000)));
  await until(() => log.memoryBytes() <= 4096);
  log.append(event("one more"));
  const reader = log.read(never);
  await log.dispose();
  await log.dispose();
  expect(log.memoryBytes()).toBe(0);
  expect(await readRest(reader)).toEqual([lost]);
});

test("a log that is disposed of while it opens its file leaves no file open", async () => {
  const directory = await temporaryDirectory();
  const open = async (): Promise<string[]> => {
    const descriptors = await readdir("/proc/self/fd");
    const links = await Promise.all(descriptors.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")));
    return links.filter((link) => link.startsWith(directory));
  };
  const log = createTurnLog({ directory, memoryBytes: 4096 });
  log.append(event("x".repeat(50_000)));
  await log.dispose();
  const other = createTurnLog({ directory, memoryBytes: 4096 });
  other.append(event("x".repeat(50_000)));
  await until(async () => (await open()).length === 1);
  await until(() => other.memoryBytes() <= 4096);
  await other.dispose();
  expect(await open()).toEqual([]);
});
