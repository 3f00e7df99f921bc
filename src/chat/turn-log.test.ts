import fc from "fast-check";
import { getEventListeners } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createTurnLog, type TurnLog } from "./turn-log.ts";

const never = new AbortController().signal;
const event = (text: string): string => `data: ${text}\n\n`;
const everyEvent = /^(?:data: [^\n]*\n\n)+$/;

/** All that a reader gets, as text, with a pause after each piece. */
const readAll = async (log: TurnLog, pause: () => Promise<void> = async () => {}, signal = never) => {
  const pieces: string[] = [];
  for await (const piece of log.read(signal)) {
    pieces.push(Buffer.from(piece).toString());
    await pause();
  }
  return { text: pieces.join(""), pieces };
};

test("readers of any speed, from the start or late, get the same bytes in pieces of whole events", async () => {
  const text = fc
    .string({ unit: "grapheme", maxLength: 400 })
    .map((words) => event(words.replaceAll("\n", " ")));
  await fc.assert(
    fc.asyncProperty(fc.array(text, { maxLength: 60 }), fc.nat(60), async (events, joinsAt) => {
      const log = createTurnLog();
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
        expect(pieces.filter((piece) => !everyEvent.test(piece))).toEqual([]);
      }
    }),
    { numRuns: 25 },
  );
});

test("a late reader gets large pieces, and an event that is larger in one", async () => {
  const log = createTurnLog();
  const events = [
    ...Array<string>(1000).fill(event("x".repeat(990))),
    event("ä".repeat(150_000)),
    event("b"),
  ];
  for (const one of events) log.append(one);
  log.end();
  const { text, pieces } = await readAll(log);
  expect(text === events.join("")).toBe(true);
  expect(pieces.length).toBeLessThan(25);
  expect(pieces.filter(({ length }) => length > 65_536)).toHaveLength(1);
});

test("a reader that keeps up gets what was appended together in one piece", async () => {
  const log = createTurnLog();
  const pieces: string[] = [];
  const reading = (async () => {
    for await (const piece of log.read(never)) pieces.push(Buffer.from(piece).toString());
  })();
  await nextTurn();
  log.append(event("one"));
  await nextTurn();
  expect(pieces).toEqual([event("one")]);
  log.append(event("two"));
  await Promise.resolve();
  log.append(event("three"));
  await nextTurn();
  expect(pieces).toEqual([event("one"), event("two") + event("three")]);
  log.end();
  await reading;
});

test("the end wakes all who wait, and what is appended after it is ignored", async () => {
  const log = createTurnLog();
  log.append(event("one"));
  const readers = [readAll(log), readAll(log)];
  await nextTurn();
  log.end();
  log.append(event("two"));
  expect((await Promise.all(readers)).map(({ text }) => text)).toEqual([event("one"), event("one")]);
});

test("an abort ends a reader without an error, waiting or not, and leaves no listener", async () => {
  const log = createTurnLog();
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
