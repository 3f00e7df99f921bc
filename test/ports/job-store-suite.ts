import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JobStatus } from "../../src/contract/job.ts";
import type { JobRecord } from "../../src/store/job-record.ts";
import type { Creation, JobStore } from "../../src/store/job-store.ts";
import { at, ended, sampleRecord } from "./job-record-sample.ts";
import { jobStoreFindingTests } from "./job-store-finding-tests.ts";
import { jobStoreSweepTests, type OpenJobStore } from "./job-store-sweep-tests.ts";

/** An empty store, and how to reopen it as after a restart. */
type Harness = { open: OpenJobStore };

const created = (creation: Creation): { record: JobRecord; created: boolean } => {
  if ("refused" in creation) throw new Error(`the job was refused: ${creation.refused}`);
  return creation;
};

/** The behaviour of every adapter of the job store. */
export const jobStoreSuite = (name: string, { open }: Harness): void => {
  describe(`job store: ${name}`, () => {
    test("a stored job is read back complete, also after a restart", async () => {
      const { store, reopen } = await open();
      const record = sampleRecord({ task: 'späße \u{1F600} \u0000 "quoted"\n' });
      expect(await store.create(record)).toEqual({ record, created: true });
      expect(await store.get(record.id)).toEqual(record);
      await store.close();
      expect(await (await reopen()).get(record.id)).toEqual(record);
    });

    test("unknown and malformed ids are null", async () => {
      const { store } = await open();
      for (const id of [randomUUID(), "", "..", "../../etc/passwd", "a/b", "x".repeat(5000), "\u0000"]) {
        expect(await store.get(id)).toBeNull();
      }
    });

    test("a change requires the status and attempt that the writer expects", async () => {
      const { store } = await open();
      const record = sampleRecord();
      await store.create(record);
      expect(await store.update(record.id, { status: ["running"] }, { task: "x" })).toBeNull();
      expect(await store.update(record.id, { status: ["queued"], attempt: 3 }, { task: "x" })).toBeNull();
      const running = await store.update(
        record.id,
        { status: ["queued"], attempt: 0 },
        { status: "running", attempt: 1 },
      );
      expect(running).toMatchObject({ status: "running", attempt: 1, task: "Fix it" });
      expect(await store.update(randomUUID(), { status: ["queued"] }, { task: "x" })).toBeNull();
    });

    test("only the queued jobs of a session are listed, oldest first", async () => {
      const { store } = await open();
      const session_id = randomUUID();
      const at = (second: number): string => new Date(1e12 + second * 1000).toISOString();
      const make = async (over: object): Promise<string> => {
        const record = sampleRecord({ session_id, status: "queued", ...over });
        await store.create(record);
        return record.id;
      };
      const later = await make({ created_at: at(3) });
      const sooner = await make({ created_at: at(2) });
      await make({ created_at: at(1), status: "succeeded", ended_at: at(2) });
      await make({ created_at: at(1), session_id: randomUUID() });
      expect(await store.queuedInSession(session_id)).toEqual([sooner, later]);
      expect(await store.queuedInSession(randomUUID())).toEqual([]);
    });

    test("exactly one of several writers wins a transition", async () => {
      const { store, reopen } = await open();
      const record = sampleRecord();
      await store.create(record);
      const wins = await Promise.all(
        Array.from({ length: 50 }, (_, n) =>
          store.update(
            record.id,
            { status: ["queued"], attempt: 0 },
            { status: "running", attempt: 1, pid: n },
          ),
        ),
      );
      const winners = wins.filter((win) => win !== null);
      expect(winners).toHaveLength(1);
      await store.close();
      expect((await (await reopen()).get(record.id))?.pid).toBe(winners[0]?.pid);
    });

    test("a lazy change is visible at once and durable with the next change", async () => {
      const { store, reopen } = await open();
      const record = sampleRecord();
      await store.create(record);
      await store.update(record.id, { status: ["queued"] }, { warnings: ["w"] }, { lazy: true });
      expect((await store.get(record.id))?.warnings).toEqual(["w"]);
      await store.update(record.id, { status: ["queued"] }, { pid: 1 });
      await store.close();
      expect(await (await reopen()).get(record.id)).toMatchObject({ warnings: ["w"], pid: 1 });
    });

    test("pages list every job once, newest first, whatever the limit, also while jobs are added", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 25 }),
          fc.integer({ min: 1, max: 7 }),
          async (seconds, limit) => {
            const { store } = await open();
            const records = seconds.map((second) => sampleRecord({ created_at: at(second) }));
            for (const record of records) await store.create(record);
            const seen: string[] = [];
            for (let cursor: string | null = ""; cursor !== null;) {
              const page = await store.list({ limit, status: "", cursor });
              expect(page.records.length).toBeLessThanOrEqual(limit);
              seen.push(...page.records.map((record) => record.id));
              cursor = page.next;
              await store.create(sampleRecord({ created_at: at(100) }));
            }
            const expected = records
              .toSorted((a, b) => b.created_at.localeCompare(a.created_at) || (a.id < b.id ? 1 : -1))
              .map((record) => record.id);
            expect(seen).toEqual(expected);
          },
        ),
        { numRuns: 8 },
      );
    });

    test("a status filter follows the jobs from state to state", async () => {
      const { store, reopen } = await open();
      const [first, second] = [sampleRecord({ created_at: at(1) }), sampleRecord({ created_at: at(2) })];
      await store.create(first);
      await store.create(second);
      await store.update(first.id, { status: ["queued"] }, { status: "running" });
      const idsOf = async (from: JobStore, status: JobStatus) =>
        (await from.list({ limit: 10, status, cursor: "" })).records.map((record) => record.id);
      expect(await idsOf(store, "queued")).toEqual([second.id]);
      expect(await idsOf(store, "running")).toEqual([first.id]);
      expect(await store.counts()).toMatchObject({ queued: 1, running: 1, failed: 0 });
      await store.close();
      const again = await reopen();
      expect(await idsOf(again, "running")).toEqual([first.id]);
      expect(await again.ids("queued")).toEqual([second.id]);
    });

    test("the jobs of an agent session are listed alone, in pages, also those of one status, as they change", async () => {
      const { store, reopen } = await open();
      const session_id = randomUUID();
      const jobs = [1, 2, 3, 4].map((second) => ended({ session_id, created_at: at(second) }));
      const [first, second, third, fourth] = jobs.map(({ id }) => id);
      const waiting = sampleRecord({ session_id, created_at: at(2) });
      const others = [ended({ created_at: at(5) }), ended({ session_id: randomUUID(), created_at: at(6) })];
      for (const record of [...jobs, waiting, ...others]) await store.create(record);
      const pagesOf = async (from: JobStore, status: JobStatus | "", session: string = session_id) => {
        const pages: string[][] = [];
        for (let cursor: string | null = ""; cursor !== null;) {
          const page = await from.list({ limit: 2, status, session_id: session, cursor });
          pages.push(page.records.map(({ id }) => id));
          cursor = page.next;
        }
        return pages;
      };
      expect(new Set((await pagesOf(store, "")).flat())).toEqual(
        new Set([first, second, third, fourth, waiting.id]),
      );
      const succeeded = [
        [fourth, third],
        [second, first],
      ];
      expect(await pagesOf(store, "succeeded")).toEqual(succeeded);
      expect(await pagesOf(store, "queued")).toEqual([[waiting.id]]);
      expect(await pagesOf(store, "running")).toEqual([[]]);
      for (const unknown of [randomUUID(), "..", "\u0000", "*"])
        expect(await pagesOf(store, "", unknown)).toEqual([[]]);
      await store.close();
      const again = await reopen();
      expect(await pagesOf(again, "succeeded")).toEqual(succeeded);
      await again.update(waiting.id, { status: ["queued"] }, { session_id: randomUUID() });
      await again.remove(String(fourth));
      expect(await pagesOf(again, "queued")).toEqual([[]]);
      expect(await pagesOf(again, "")).toEqual([[third, second], [first]]);
    });

    test("an unknown cursor is refused", async () => {
      const { store } = await open();
      await expect(store.list({ limit: 1, status: "", cursor: "../x" })).rejects.toMatchObject({
        code: "invalid_request",
      });
    });

    test("an idempotency key stores one job: concurrently, later and after a restart", async () => {
      const { store, reopen } = await open();
      const submit = async (to: JobStore) =>
        created(await to.create(sampleRecord({ idempotency: { key: "k", body: "b" } })));
      const answers = await Promise.all(Array.from({ length: 20 }, () => submit(store)));
      expect(answers.filter((answer) => answer.created)).toHaveLength(1);
      expect(new Set(answers.map((answer) => answer.record.id)).size).toBe(1);
      await store.close();
      const later = await submit(await reopen());
      expect(later).toMatchObject({ created: false, record: { id: answers[0]?.record.id } });
    });

    test("a deleted job is unknown to every query, and only final ones can be deleted", async () => {
      const { store, reopen } = await open();
      const deleted = ended({ session_id: randomUUID(), idempotency: { key: "k", body: "b" } });
      const kept = sampleRecord();
      await store.create(deleted);
      await store.create(kept);
      await store.remove(deleted.id);
      await store.remove(kept.id);
      await store.remove(randomUUID());
      expect(await store.get(deleted.id)).toBeNull();
      expect(await store.findBySession(deleted.session_id ?? "")).toBeNull();
      expect(
        (await store.list({ limit: 10, status: "", cursor: "" })).records.map((record) => record.id),
      ).toEqual([kept.id]);
      const sameKey = sampleRecord({ idempotency: { key: "k", body: "b" } });
      expect(await store.create(sameKey)).toEqual({ record: sameKey, created: true });
      await store.close();
      expect(await (await reopen()).get(deleted.id)).toBeNull();
    });

    test("the newest job of a session is found", async () => {
      const { store, reopen } = await open();
      const session = randomUUID();
      const newest = ended({ session_id: session, created_at: at(2) });
      await store.create(newest);
      // Written last, but not the newest.
      await store.create(ended({ session_id: session, created_at: at(1) }));
      expect((await store.findBySession(session))?.id).toBe(newest.id);
      await store.close();
      expect((await (await reopen()).findBySession(session))?.id).toBe(newest.id);
    });

    test("the jobs of a worktree are found as they change, oldest first, including the one that made it", async () => {
      const { store, reopen } = await open();
      const maker = ended({ created_at: at(1) });
      const later = ended({ created_at: at(3), worktree_id: maker.id, ended_at: at(4), unsettled: true });
      const waiting = sampleRecord({ created_at: at(2), worktree_id: maker.id });
      const elsewhere = ended({ worktree_id: randomUUID() });
      for (const record of [later, maker, waiting, elsewhere]) await store.create(record);
      const use = ({ id, status, unsettled, ended_at }: JobRecord) => ({
        jobId: id,
        status,
        unsettled,
        ended: ended_at === null ? null : Date.parse(ended_at),
      });
      const uses = [maker, waiting, later].map(use);
      expect(await store.usesOfWorktree(maker.id)).toEqual(uses);
      await store.close();
      const again = await reopen();
      expect(await again.usesOfWorktree(maker.id)).toEqual(uses);
      await again.update(waiting.id, { status: ["queued"] }, { worktree_id: null });
      await again.remove(maker.id);
      expect(await again.usesOfWorktree(maker.id)).toEqual([use(later)]);
      expect(await again.usesOfWorktree(randomUUID())).toEqual([]);
    });

    jobStoreSweepTests(open);
    jobStoreFindingTests(open);
  });
};
