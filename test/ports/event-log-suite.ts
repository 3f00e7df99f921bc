import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JobEvent } from "../../src/contract/event.ts";
import type { EventLog } from "../../src/store/event-log.ts";
import { until } from "../until.ts";

export const createdAt = "2026-01-01T00:00:00.000Z";

/** The record of a job, for the logs of the suite; `over`: no event will come. */
export type KnownJobs = Map<string, { createdAt: string; over: boolean }>;

type Opened = {
  log: EventLog;
  /** Adapters that read records read them here. */
  jobs: KnownJobs;
  /** The same log, opened as after a restart; `log` is unusable then. */
  reopen: () => Promise<EventLog>;
};

type Harness = { open: (options: { maxBytes: number }) => Promise<Opened> };

export const text = (value: string) => ({ type: "text" as const, block: 0, text: value });

/** Appends the last event of a job and writes what waits. */
export const end = (log: EventLog, id: string): Promise<void> => {
  log.append(id, 1, { type: "stage", stage: "ended", detail: "succeeded" });
  return log.finish(id);
};

export const texts = (events: JobEvent[]): (string | null)[] =>
  events.map((event) => (event.type === "text" ? event.text : null));

export const collect = async (events: AsyncIterable<JobEvent>): Promise<JobEvent[]> => {
  const all: JobEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
};

/** Reads into `seen` until the end. */
export const follow = (events: AsyncIterable<JobEvent>): { seen: JobEvent[]; ended: Promise<void> } => {
  const seen: JobEvent[] = [];
  const ended = (async () => {
    for await (const event of events) seen.push(event);
  })();
  return { seen, ended };
};

const firstOf = async (events: AsyncIterable<JobEvent>): Promise<JobEvent[]> => {
  for await (const event of events) return [event];
  return [];
};

export const upTo = (last: number, first = 1): number[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);

export const numbers = (events: JobEvent[]): number[] => events.map((event) => event.seq);

export const never = new AbortController().signal;

/** The behaviour of every adapter of the event log. */
export const eventLogSuite = (name: string, { open }: Harness): void => {
  const openLog = (maxBytes = 1_000_000) => open({ maxBytes });

  describe(`event log: ${name}`, () => {
    test("a reader gets earlier and later events, in order and numbered from 2: the first is that of the record", async () => {
      const { log } = await openLog();
      const id = randomUUID();
      log.append(id, 1, text("a"));
      const reading = collect(log.read(id, 0, never));
      log.append(id, 1, text("b"));
      log.append(id, 2, text("c"));
      await log.finish(id);
      const events = await reading;
      expect(numbers(events)).toEqual([2, 3, 4]);
      expect(texts(events)).toEqual(["a", "b", "c"]);
      expect(events[2]).toEqual({ seq: 4, at: "1970-01-01T00:00:00.000Z", attempt: 2, ...text("c") });
    });

    test("a reader that names its last event gets exactly those that follow", async () => {
      const { log } = await openLog();
      const id = randomUUID();
      for (let n = 1; n <= 500; n += 1) log.append(id, 1, text(String(n)));
      await log.finish(id);
      await fc.assert(
        fc.asyncProperty(fc.integer({ min: 0, max: 510 }), async (after) => {
          const seen = await collect(log.read(id, after, never));
          expect(numbers(seen)).toEqual(upTo(501, Math.max(2, after + 1)));
        }),
        { numRuns: 20 },
      );
    });

    test("numbering continues after a restart", async () => {
      const { log, reopen } = await openLog();
      const id = randomUUID();
      log.append(id, 1, text("one"));
      await log.finish(id);
      await log.close();
      const after = await reopen();
      after.append(id, 2, text("two"));
      await after.finish(id);
      const events = await collect(after.read(id, 0, never));
      expect(numbers(events)).toEqual([2, 3]);
      expect(texts(events)).toEqual(["one", "two"]);
    });

    test("past its size limit the log leaves out text but no tool calls, says so once, and stays readable", async () => {
      const { log } = await openLog(65_536);
      const id = randomUUID();
      for (let n = 0; n < 300; n += 1) log.append(id, 1, text("x".repeat(1000)));
      log.append(id, 1, {
        type: "tool_use",
        id: "t",
        name: "Bash",
        input: { command: "ls" },
        parent: null,
      });
      await log.finish(id);
      const events = await collect(log.read(id, 0, never));
      expect(events.filter((event) => event.type === "warning")).toHaveLength(1);
      const kept = events.filter((event) => event.type === "text").length;
      expect(kept).toBeGreaterThan(50);
      expect(kept).toBeLessThan(70);
      expect(events.at(-1)?.type).toBe("tool_use");
      expect(numbers(events)).toEqual(upTo(events.length + 1, 2));
    });

    test("the size of a log is known after a restart", async () => {
      const { log, reopen } = await openLog(65_536);
      const id = randomUUID();
      for (let n = 1; n <= 100; n += 1) {
        log.append(id, 1, text("x".repeat(1000)));
        if (n % 10 === 0) await log.finish(id);
      }
      await log.close();
      const after = await reopen();
      after.append(id, 1, text("left out"));
      await after.finish(id);
      expect(texts(await collect(after.read(id, 0, never)))).not.toContain("left out");
    });

    test("a long text is cut once, with a note how much is left out", async () => {
      const { log } = await openLog();
      const id = randomUUID();
      log.append(id, 1, text("x".repeat(65_536 + 100_000)));
      await log.finish(id);
      const [only] = texts(await collect(log.read(id, 0, never)));
      expect(only).toMatch(/^x{65536}\n\[… 100000 characters left out …\]$/);
    });

    test("any text survives: quotes, line ends and all of Unicode; invalid characters are replaced", async () => {
      const { log } = await openLog();
      const id = randomUUID();
      const values = ['"\\', "a\r\nb\u2028\u0000", "späße \u{1F600}", "{seq}-0 %d %s", ""];
      for (const value of values) log.append(id, 1, text(value));
      await log.finish(id);
      expect(texts(await collect(log.read(id, 0, never)))).toEqual(values);
    });

    test("an aborted reader ends although more events will come", async () => {
      const { log, jobs } = await openLog();
      const id = randomUUID();
      jobs.set(id, { createdAt, over: false });
      const controller = new AbortController();
      log.append(id, 1, text("a"));
      const { seen, ended } = follow(log.read(id, 0, controller.signal));
      await until(() => texts(seen).includes("a"));
      controller.abort();
      await ended;
      await log.close();
    });

    test("readers end when the log is closed", async () => {
      const { log, jobs } = await openLog();
      const id = randomUUID();
      jobs.set(id, { createdAt, over: false });
      log.append(id, 1, text("a"));
      const { seen, ended } = follow(log.read(id, 0, never));
      await until(() => texts(seen).includes("a"));
      await log.close();
      await ended;
    });

    test("a malformed job id has no log", async () => {
      const { log } = await openLog();
      for (const id of ["../../etc/passwd", "", "*", "\u0000"]) {
        expect(await collect(log.read(id, 0, never))).toEqual([]);
        await log.remove(id);
      }
    });

    test("the log of an unknown job is empty", async () => {
      const { log } = await openLog();
      expect(await collect(log.read(randomUUID(), 0, never))).toEqual([]);
    });

    test("the first event is readable before anything is written, comes first and only once", async () => {
      const { log, jobs, reopen } = await openLog();
      const id = randomUUID();
      jobs.set(id, { createdAt, over: false });
      const [first] = await firstOf(log.read(id, 0, never));
      expect(first).toEqual({
        seq: 1,
        at: createdAt,
        attempt: 0,
        type: "stage",
        stage: "queued",
        detail: null,
      });
      await log.close();
      const after = await reopen();
      after.append(id, 1, text("a"));
      await after.finish(id);
      const events = await collect(after.read(id, 0, never, true));
      expect(events.map((event) => event.type)).toEqual(["stage", "text"]);
    });

    test("a removed log is unknown, and its readers end", async () => {
      const { log, jobs } = await openLog();
      const id = randomUUID();
      log.append(id, 1, text("a"));
      await log.finish(id);
      jobs.set(id, { createdAt, over: true });
      await log.remove(id);
      jobs.delete(id);
      expect(await collect(log.read(id, 0, never))).toEqual([]);
    });

    test("numbering continues in a finished log that is appended to", async () => {
      const { log } = await openLog();
      const id = randomUUID();
      log.append(id, 1, text("a"));
      await log.finish(id);
      await log.finish(id);
      expect(texts(await collect(log.read(id, 0, never)))).toEqual(["a"]);
      log.append(id, 1, text("b"));
      await log.finish(id);
      const events = await collect(log.read(id, 0, never));
      expect(numbers(events)).toEqual([2, 3]);
      expect(texts(await collect(log.read(id, 2, never)))).toEqual(["b"]);
    });
  });
};
