import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { WorktreeStore } from "../../src/store/worktree-store.ts";
import { sampleWorktree } from "./worktree-record-sample.ts";

type Harness = {
  /** An empty store, and how to reopen it as after a restart. */
  open: () => Promise<{ store: WorktreeStore; reopen: () => Promise<WorktreeStore> }>;
};

/** The behaviour of every adapter of the worktree store. */
export const worktreeStoreSuite = (name: string, { open }: Harness): void => {
  describe(`worktree store: ${name}`, () => {
    test("a stored worktree is read back complete, also after a restart", async () => {
      const { store, reopen } = await open();
      const record = sampleWorktree({ error: 'späße \u{1F600} \u0000 "quoted"\n', status: "failed" });
      await store.create(record);
      expect(await store.get(record.worktree_id)).toEqual(record);
      await store.close();
      expect(await (await reopen()).get(record.worktree_id)).toEqual(record);
    });

    test("unknown and malformed ids are null", async () => {
      const { store } = await open();
      for (const id of [randomUUID(), "", "..", "../../etc/passwd", "a/b", "x".repeat(5000), "\u0000"])
        expect(await store.get(id)).toBeNull();
    });

    test("all worktrees are listed, oldest first", async () => {
      const { store, reopen } = await open();
      const days = ["2026-01-03", "2026-01-01", "2026-01-02"];
      const records = days.map((day) => sampleWorktree({ created_at: `${day}T00:00:00.000Z` }));
      for (const record of records) await store.create(record);
      const sorted = [records[1], records[2], records[0]];
      expect(await store.list()).toEqual(sorted);
      await store.close();
      expect(await (await reopen()).list()).toEqual(sorted);
    });

    test("a change requires a status that the writer expects, and is durable", async () => {
      const { store, reopen } = await open();
      const { worktree_id: id } = sampleWorktree();
      await store.create(sampleWorktree({ worktree_id: id }));
      expect(await store.update(id, ["ready", "failed"], { attempt: 7 })).toBeNull();
      expect(await store.update(randomUUID(), ["preparing"], { attempt: 7 })).toBeNull();
      expect(await store.update(id, ["preparing"], { status: "ready" })).toMatchObject({
        status: "ready",
        attempt: 1,
      });
      await store.close();
      expect(await (await reopen()).get(id)).toMatchObject({ status: "ready", attempt: 1 });
    });

    test("exactly one of several writers wins a change", async () => {
      const { store } = await open();
      const record = sampleWorktree();
      await store.create(record);
      const wins = await Promise.all(
        Array.from({ length: 50 }, (_, attempt) =>
          store.update(record.worktree_id, ["preparing"], { status: "ready", attempt }),
        ),
      );
      const won = wins.filter((win) => win !== null);
      expect(won).toHaveLength(1);
      expect(await store.get(record.worktree_id)).toEqual(won[0]);
    });

    test("a deleted worktree is unknown, and deleting an unknown one succeeds", async () => {
      const { store, reopen } = await open();
      const record = sampleWorktree();
      await store.create(record);
      await store.remove(record.worktree_id);
      await store.remove(record.worktree_id);
      await store.remove("../..");
      expect(await store.get(record.worktree_id)).toBeNull();
      await store.close();
      expect(await (await reopen()).list()).toEqual([]);
    });
  });
};
