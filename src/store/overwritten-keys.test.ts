import { describe, expect, test } from "vitest";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { openKv } from "../../test/kv.ts";
import { openRedisJobStore } from "../../test/open-stores.ts";
import { redisKinds } from "../../test/redis-kinds.ts";
import { failureOf } from "../kv/failure.ts";
import { createLog } from "../lib/log.ts";

const everything = { limit: 100, status: "", cursor: "" } as const;

describe.each(redisKinds())("a key that somebody has overwritten on a %s", (_kind, url) => {
  const startStore = async () => {
    const kv = await openKv(await url());
    const warnings: string[] = [];
    const log = createLog("warn", (line) => (warnings.push(line), ""));
    const spoil = async (...parts: string[]): Promise<string> => {
      await kv.client.del(kv.jobKey(...parts));
      await kv.client.set(kv.jobKey(...parts), "x");
      return kv.jobKey(...parts);
    };
    return { kv, store: openRedisJobStore({ kv, podName: "pod", log }), spoil, warnings };
  };

  test("reads and writes name the damaged index, and nothing is half done", async () => {
    const { kv, store, spoil } = await startStore();
    const record = sampleRecord();
    await store.create(record);
    const key = await spoil("st:running");
    const toRun = () => store.update(record.id, { status: ["queued"] }, { status: "running" });
    for (const asked of [toRun, () => store.ids("running"), () => store.counts()]) {
      const error: unknown = await asked().catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: "store_unavailable" });
      expect(String(error)).toContain(
        `The key ${key} in the key-value store holds another type of value than the service writes: restore or delete it`,
      );
      expect(failureOf(error)).toBe("value");
    }
    expect(await store.get(record.id)).toEqual(record);
    expect(await store.ids("queued")).toEqual([record.id]);
    await kv.client.del(key);
    expect(await toRun()).toMatchObject({ status: "running" });
  });

  test("the job of a damaged record is unknown, and the others are visible", async () => {
    const { store, spoil, warnings } = await startStore();
    const [first, second] = [sampleRecord(), sampleRecord()];
    await store.create(first);
    await store.create(second);
    await spoil("job", first.id);
    for (let time = 0; time < 2; time += 1) {
      expect(await store.get(first.id)).toBeNull();
      expect((await store.list(everything)).records.map(({ id }) => id)).toEqual([second.id]);
    }
    await expect(store.create(first)).rejects.toThrow(first.id);
    expect(warnings.filter((said) => said.includes(first.id))).toHaveLength(1);
  });
});
