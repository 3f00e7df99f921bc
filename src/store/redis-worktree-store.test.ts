import { expect, test } from "vitest";
import { sampleWorktree } from "../../test/ports/worktree-record-sample.ts";
import { worktreeStoreSuite } from "../../test/ports/worktree-store-suite.ts";
import { openKv } from "../../test/kv.ts";
import { redisKinds } from "../../test/redis-kinds.ts";
import { startRedis } from "../../test/redis.ts";
import { createLog } from "../lib/log.ts";
import type { Kv } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { openRedisRecords } from "./redis-records.ts";
import { createWorktreeStore, worktreeKind } from "./worktree-store.ts";

const silent = createLog("silent", (text) => text);
const openOn = (kv: Kv, log: Log = silent) =>
  createWorktreeStore(openRedisRecords(worktreeKind, { kv, now: () => new Date(), log }));
const kinds = redisKinds();

for (const [kind, url] of kinds) {
  worktreeStoreSuite(kind, {
    open: async () => {
      const kv = await openKv(await url());
      return {
        store: openOn(kv),
        reopen: async () => openOn(await openKv(await url(), kv.prefix)),
      };
    },
  });
}

test.each(kinds)(
  "exactly one of the writers of two instances on a %s wins, and the other sees it",
  async (_kind, url) => {
    const first = await openKv(await url());
    const second = await openKv(await url(), first.prefix);
    const [a, b] = [openOn(first), openOn(second)];
    const record = sampleWorktree();
    const { worktree_id: id } = record;
    await a.create(record);
    const wins = await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        (n % 2 === 0 ? a : b).update(id, ["preparing"], { status: "ready", attempt: n }),
      ),
    );
    const won = wins.filter((win) => win !== null);
    expect(won).toHaveLength(1);
    expect([await a.get(id), await b.get(id)]).toEqual([won[0], won[0]]);
    expect(await a.update(id, ["ready"], { removing: true })).toMatchObject({ removing: true });
    expect(await b.update(id, ["ready"], { error: "e" })).toMatchObject({ removing: true, error: "e" });
    await b.remove(id);
    expect(await a.update(id, ["ready"], { error: "f" })).toBeNull();
    expect(await a.list()).toEqual([]);
  },
);

test("a value that is no worktree is skipped, with one warning", async () => {
  const lines: string[] = [];
  const kv = await openKv((await startRedis()).url);
  const log = createLog("info", (line) => (lines.push(line), ""));
  const store = openOn(kv, log);
  const good = sampleWorktree();
  await store.create(good);
  const [torn, foreign, odd] = [sampleWorktree(), sampleWorktree(), sampleWorktree()];
  for (const [{ worktree_id: id }, json] of [
    [torn, JSON.stringify(torn).slice(0, 100)],
    [foreign, JSON.stringify(good)],
    [odd, JSON.stringify({ ...odd, status: "odd" })],
  ] as const) {
    await kv.client.hset(kv.jobKey("prepared", id), { rev: "1", json });
    await kv.client.zadd(kv.jobKey("prepared"), 0, `1767225600000_${id}`);
  }
  for (let time = 0; time < 2; time += 1) expect(await store.list()).toEqual([good]);
  expect(await store.get(torn.worktree_id)).toBeNull();
  expect(lines).toHaveLength(3);
});

test("every call fails with store_unavailable while the store is unreachable", async () => {
  const redis = await startRedis();
  const store = openOn(await openKv(redis.url));
  const record = sampleWorktree();
  await store.create(record);
  await redis.kill();
  const refused = { code: "store_unavailable" };
  await expect(store.create(sampleWorktree())).rejects.toMatchObject(refused);
  await expect(store.get(record.worktree_id)).rejects.toMatchObject(refused);
  await expect(store.list()).rejects.toMatchObject(refused);
  await expect(store.update(record.worktree_id, ["preparing"], {})).rejects.toMatchObject(refused);
  await expect(store.remove(record.worktree_id)).rejects.toMatchObject(refused);
});
