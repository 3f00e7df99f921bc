import { describe, expect, test } from "vitest";
import type { CompletionRecord, CompletionStore } from "../../src/store/completion-store.ts";

/** The time to live that stores are opened with, s. */
export const completionTtl = 3600;

type Clock = { now: Date };
type Harness = {
  /** An empty store on the clock, how to reopen it, and a concurrent writer. */
  open: (clock: Clock) => Promise<{
    store: CompletionStore;
    reopen: () => Promise<CompletionStore>;
    rival: CompletionStore;
  }>;
};

const begin = Date.UTC(2026, 0, 1);
const after = (seconds: number): Date => new Date(begin + seconds * 1000);

export const sampleCompletion = (over: Partial<CompletionRecord> = {}): CompletionRecord => ({
  uuid: "one",
  status: "queued",
  result: null,
  session_id: null,
  cost_usd: null,
  cost_estimated: false,
  duration_ms: null,
  num_turns: null,
  is_error: false,
  created_at: after(0).toISOString(),
  started_at: null,
  ended_at: null,
  usage: null,
  model: "sonnet",
  error: null,
  error_code: null,
  meta: "{}",
  pod_name: "pod",
  epoch: "e1",
  ...over,
});

const done = (second: number, over: Partial<CompletionRecord> = {}): Partial<CompletionRecord> => ({
  status: "completed",
  ended_at: after(second).toISOString(),
  ...over,
});

const uuidsOf = (records: readonly CompletionRecord[]): string[] => records.map(({ uuid }) => uuid);

/** The behaviour of every adapter of the completion store. */
export const completionStoreSuite = (name: string, { open }: Harness): void => {
  const opened = (clock: Clock = { now: after(1) }) => open(clock);

  describe(`completion store: ${name}`, () => {
    test("a completion is read back complete, also after a restart", async () => {
      const { store, reopen } = await opened();
      const record = sampleCompletion({ meta: '{"späße":"\u{1F600}\\n"}' });
      expect(await store.create(record)).toBe(true);
      expect(await store.get(record.uuid)).toEqual(record);
      expect(await (await reopen()).get(record.uuid)).toEqual(record);
    });

    test("ids of every allowed form are distinct, also those with a meaning to a file system", async () => {
      const { store, reopen } = await opened();
      const uuids = [
        ".",
        "..",
        ".a",
        "a",
        "A",
        "a:b",
        "a.b",
        "a.json",
        "a.tmp",
        ":",
        "-",
        "_",
        ":".repeat(200),
      ];
      for (const uuid of uuids) expect(await store.create(sampleCompletion({ uuid }))).toBe(true);
      const again = await reopen();
      for (const uuid of uuids) expect((await again.get(uuid))?.uuid).toBe(uuid);
      expect(uuidsOf(await again.unfinished()).toSorted()).toEqual(uuids.toSorted());
    });

    test("unknown and malformed ids are null, and cannot be written", async () => {
      const { store } = await opened();
      expect(await store.get("unknown")).toBeNull();
      for (const uuid of ["", "../x", "a/b", "a+b", "=", "x".repeat(201), "\u0000", "a\n"]) {
        expect(await store.get(uuid)).toBeNull();
        expect(await store.update(uuid, "e1", { result: "x" })).toBe(false);
        await expect(store.create(sampleCompletion({ uuid }))).rejects.toThrow("the id of a completion");
      }
    });

    test("an unfinished completion is not overwritten, a final one is", async () => {
      const { store, reopen } = await opened();
      await store.create(sampleCompletion());
      const other = sampleCompletion({ epoch: "e2", created_at: after(1).toISOString() });
      expect(await store.create(other)).toBe(false);
      await store.update("one", "e1", { status: "running" });
      expect(await (await reopen()).create(other)).toBe(false);
      expect(await store.get("one")).toMatchObject({ epoch: "e1", status: "running" });
      await store.update("one", "e1", done(1));
      expect(await store.create(other)).toBe(true);
      expect(await store.get("one")).toEqual(other);
    });

    test("only the start that runs a completion changes it; a final state is written once", async () => {
      const { store, reopen } = await opened();
      await store.create(sampleCompletion());
      expect(await store.update("one", "e2", { result: "x" })).toBe(false);
      expect(await store.update("two", "e1", { result: "x" })).toBe(false);
      expect(await store.update("one", "e1", { status: "running", session_id: "s" })).toBe(true);
      expect(await store.update("one", "e1", done(1, { result: "answer" }))).toBe(true);
      expect(await store.update("one", "e1", { status: "failed", result: "late" })).toBe(false);
      expect(await (await reopen()).get("one")).toMatchObject({
        status: "completed",
        session_id: "s",
        result: "answer",
      });
    });

    test("exactly one of several writers creates or ends a completion", async () => {
      const { store, rival } = await opened();
      const of = (n: number) => (n % 2 === 0 ? store : rival);
      const made = await Promise.all(
        Array.from({ length: 20 }, (_, n) => of(n).create(sampleCompletion({ model: `m${n}` }))),
      );
      expect(made.filter(Boolean)).toHaveLength(1);
      const ended = await Promise.all(
        Array.from({ length: 20 }, (_, n) => of(n).update("one", "e1", done(1, { result: `r${n}` }))),
      );
      expect(ended.filter(Boolean)).toHaveLength(1);
      expect(await store.get("one")).toMatchObject({
        model: `m${made.indexOf(true)}`,
        result: `r${ended.indexOf(true)}`,
      });
    });

    test("completions are listed newest first, all or of one status, up to the limit", async () => {
      const { store, reopen } = await opened();
      for (const [uuid, second] of [
        ["b", 2],
        ["d", 4],
        ["a", 1],
        ["c", 3],
      ] as const)
        await store.create(sampleCompletion({ uuid, created_at: after(second).toISOString() }));
      await store.update("a", "e1", { status: "running" });
      await store.update("b", "e1", done(5));
      await store.update("c", "e1", done(6, { status: "failed" }));
      for (const each of [store, await reopen()]) {
        const of = async (status: Parameters<CompletionStore["list"]>[0]["status"], limit = 100) =>
          uuidsOf(await each.list({ limit, status }));
        expect(await of("all")).toEqual(["d", "c", "b", "a"]);
        expect(await of("all", 2)).toEqual(["d", "c"]);
        expect(await of("queued")).toEqual(["d"]);
        expect(await of("running")).toEqual(["a"]);
        expect(await of("completed")).toEqual(["b"]);
        expect(await of("failed", 1)).toEqual(["c"]);
        expect(await of("cancelled")).toEqual([]);
      }
    });

    test("a new turn of a final completion is listed once, at its new position", async () => {
      const { store } = await opened();
      await store.create(sampleCompletion());
      await store.create(sampleCompletion({ uuid: "two", created_at: after(1).toISOString() }));
      await store.update("one", "e1", done(1, { status: "failed" }));
      await store.create(sampleCompletion({ created_at: after(2).toISOString() }));
      expect(uuidsOf(await store.list({ limit: 10, status: "all" }))).toEqual(["one", "two"]);
      expect(uuidsOf(await store.list({ limit: 10, status: "failed" }))).toEqual([]);
      await store.update("one", "e1", done(3));
      expect(uuidsOf(await store.list({ limit: 10, status: "completed" }))).toEqual(["one"]);
      await store.expire(after(100));
      expect(uuidsOf(await store.list({ limit: 10, status: "completed" }))).toEqual(["one"]);
      expect(uuidsOf(await store.list({ limit: 10, status: "all" }))).toEqual(["one", "two"]);
    });

    test("only unfinished completions are listed, of all starts, also after a restart", async () => {
      const { store, reopen } = await opened();
      for (const uuid of ["a", "b", "c"]) await store.create(sampleCompletion({ uuid, epoch: `of-${uuid}` }));
      await store.update("a", "of-a", { status: "running" });
      await store.update("b", "of-b", done(1));
      for (const each of [store, await reopen()]) {
        const records = await each.unfinished();
        expect(records.map(({ uuid, epoch, status }) => `${uuid} ${epoch} ${status}`).toSorted()).toEqual([
          "a of-a running",
          "c of-c queued",
        ]);
      }
    });

    test("expiry removes neither unfinished nor recent completions", async () => {
      const { store, reopen } = await opened();
      await store.create(sampleCompletion({ uuid: "running" }));
      await store.create(sampleCompletion({ uuid: "ended" }));
      await store.update("ended", "e1", done(completionTtl - 10));
      await store.expire(after(completionTtl));
      for (const each of [store, await reopen()]) {
        expect(uuidsOf(await each.list({ limit: 10, status: "all" })).toSorted()).toEqual([
          "ended",
          "running",
        ]);
        expect(uuidsOf(await each.unfinished())).toEqual(["running"]);
      }
    });
  });
};
