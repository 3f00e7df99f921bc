import { describe, expect, test } from "vitest";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { openKv } from "../../test/kv.ts";
import { redisKinds } from "../../test/redis-kinds.ts";
import { createLog } from "../lib/log.ts";
import { createInstancesView } from "../main/instances-view.ts";
import { openRedisJobStore } from "../../test/open-stores.ts";

const silent = createLog("silent", (text) => text);
const everything = { limit: 100, status: "", cursor: "" } as const;

describe.each(redisKinds())("a key that somebody has overwritten on a %s", (_kind, url) => {
  const startStore = async () => {
    const kv = await openKv(await url());
    const warnings: string[] = [];
    const log = { ...silent, warn: (...said: unknown[]) => void warnings.push(JSON.stringify(said)) };
    const store = openRedisJobStore({ kv, podName: "pod", log });
    const spoil = async (...parts: string[]): Promise<void> => {
      await kv.client.del(kv.jobKey(...parts));
      await kv.client.set(kv.jobKey(...parts), "x");
    };
    return { store, spoil, warnings };
  };

  test.each(["all", "st:queued", "prefixes", "expiring", "unsettled"])(
    "the index %s is made anew with all jobs when one is written, which is told",
    async (name) => {
      const { store, spoil, warnings } = await startStore();
      const run = { status: "running" as const, attempt: 1, unsettled: true, pod_name: "pod" };
      const [earlier, running, fresh] = [sampleRecord(), sampleRecord(run), sampleRecord()];
      await store.create(earlier);
      await store.create(running);
      await spoil(name);
      await store.create(fresh);
      await store.update(fresh.id, { status: ["queued"] }, run);
      const unsettled = (await store.unsettled()).map(({ id }) => id);
      expect(unsettled.toSorted()).toEqual([running.id, fresh.id].toSorted());
      expect(await store.ids("queued")).toEqual([earlier.id]);
      expect((await store.list(everything)).records).toHaveLength(3);
      expect((await store.due(Date.now())).expired).toEqual([earlier.id]);
      expect(
        await store.create(sampleRecord({ id: `${earlier.id.slice(0, 8)}${fresh.id.slice(8)}` })),
      ).toEqual({
        refused: "prefix",
      });
      expect(warnings.join()).toContain(name);
    },
  );

  test.each(["all", "st:queued", "expiring", "unsettled"])(
    "the index %s is made anew with all jobs when it is read",
    async (name) => {
      const { store, spoil } = await startStore();
      const [queued, running] = [sampleRecord(), sampleRecord({ status: "running", unsettled: true })];
      await store.create(queued);
      await store.create(running);
      await spoil(name);
      expect((await store.list(everything)).records).toHaveLength(2);
      expect(await store.counts()).toMatchObject({ queued: 1, running: 1 });
      expect((await store.due(Date.now())).expired).toEqual([queued.id]);
      expect((await store.unsettled()).map(({ id }) => id)).toEqual([running.id]);
    },
  );

  test("a job is gone whose record it was, from all lists, and keeps nobody from seeing the others", async () => {
    const { store, spoil, warnings } = await startStore();
    const [first, second] = [sampleRecord(), sampleRecord({ created_at: "2026-01-01T00:00:01.000Z" })];
    await store.create(first);
    await store.create(second);
    await spoil("job", first.id);
    const instances = { list: async () => [] };
    const now = (): Date => new Date("2026-01-01T00:00:11.000Z");
    const view = createInstancesView({ store, instances, now });
    expect((await view.overview()).queue).toMatchObject({ oldest_wait_seconds: 10 });
    expect(await store.counts()).toMatchObject({ queued: 1 });
    expect((await store.due(Date.now())).expired).toEqual([second.id]);
    expect((await store.list(everything)).records.map(({ id }) => id)).toEqual([second.id]);
    expect(warnings.filter((said) => said.includes(first.id))).toHaveLength(1);
  });
});
