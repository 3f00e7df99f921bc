import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { maxRead } from "../../src/store/job-list.ts";
import type { JobStore } from "../../src/store/job-store.ts";
import { at, ended, sampleRecord } from "./job-record-sample.ts";
import type { OpenJobStore } from "./job-store-sweep-tests.ts";

/** How every adapter of the job store finds jobs by what they are and by the beginning of their id. */
export const jobStoreFindingTests = (open: OpenJobStore): void => {
  test("queued and running jobs are listed together, each once, also those of a session", async () => {
    const { store } = await open();
    const session_id = randomUUID();
    const jobs = [
      sampleRecord({ created_at: at(1), status: "running", session_id }),
      sampleRecord({ created_at: at(2) }),
      ended({ created_at: at(3), session_id }),
      sampleRecord({ created_at: at(4), status: "running" }),
      sampleRecord({ created_at: at(5), session_id }),
    ];
    for (const record of jobs) await store.create(record);
    const pages = async (query: { session_id?: string; since?: number }): Promise<number[]> => {
      const seen: number[] = [];
      for (let cursor: string | null = ""; cursor !== null;) {
        const page = await store.list({ limit: 2, status: "active", cursor, ...query });
        seen.push(...page.records.map(({ id }) => jobs.findIndex((job) => job.id === id)));
        cursor = page.next;
      }
      return seen;
    };
    expect(await pages({})).toEqual([4, 3, 1, 0]);
    expect(await pages({ session_id })).toEqual([4, 0]);
    expect(await pages({ since: Date.parse(at(2)) })).toEqual([4, 3, 1]);
  });

  test("a filtered list reads a bounded number of records a page, and goes on after them", async () => {
    const { store } = await open();
    const count = maxRead + 10;
    const create = (n: number) =>
      store.create(
        sampleRecord({
          created_at: at(n),
          id: `${n.toString(16).padStart(8, "0")}${randomUUID().slice(8)}`,
        }),
      );
    for (let n = 0; n < count; n += 200)
      await Promise.all(Array.from({ length: Math.min(200, count - n) }, (_, m) => create(n + m)));
    const read: string[] = [];
    const list = (cursor: string, wanted: (n: number) => boolean) =>
      store.list({
        limit: 2,
        status: "",
        cursor,
        isWanted: ({ id }) => (read.push(id), wanted(Number.parseInt(id.slice(0, 8), 16))),
      });
    const first = await list("", (n) => n < 5);
    expect({ found: first.records.length, read: read.length }).toEqual({ found: 0, read: maxRead });
    const second = await list(first.next ?? "", (n) => n < 5);
    expect(second.records.map(({ created_at }) => created_at)).toEqual([at(4), at(3)]);
    const third = await list(second.next ?? "", (n) => n < 3);
    expect(third).toMatchObject({ records: [{ created_at: at(2) }, { created_at: at(1) }] });
    expect(await list(third.next ?? "", (n) => n < 3)).toMatchObject({
      records: [{ created_at: at(0) }],
      next: null,
    });
  });

  test("jobs are found by the beginning of their id, as they come and go, also after a restart", async () => {
    const { store, reopen } = await open();
    const ids = ["ab12cd34", "ab12ce00", "ab130000", "ab1f0000"].map(
      (start) => `${start}${randomUUID().slice(8)}`,
    );
    for (const id of ids) await store.create(id === ids[1] ? ended({ id }) : sampleRecord({ id }));
    const find = async (from: JobStore, beginning: string, limit = 9) =>
      (await from.startingWith(beginning, limit)).map(({ id }) => id).toSorted();
    expect(await find(store, "ab12")).toEqual([ids[0], ids[1]]);
    expect(await find(store, "ab12", 1)).toHaveLength(1);
    expect(await find(store, "ab13")).toEqual([ids[2]]);
    expect(await find(store, String(ids[3]))).toEqual([ids[3]]);
    for (const none of ["ab14", "ab12-", "*", "[", "\u0000"]) expect(await find(store, none)).toEqual([]);
    await store.remove(String(ids[1]));
    expect(await find(store, "ab12")).toEqual([ids[0]]);
    await store.close();
    expect(await find(await reopen(), "ab12")).toEqual([ids[0]]);
  });
};
