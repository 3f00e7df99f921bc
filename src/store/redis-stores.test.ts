import { randomUUID } from "node:crypto";
import { Cluster } from "ioredis";
import { describe, expect, test } from "vitest";
import { completionStoreSuite, completionTtl } from "../../test/ports/completion-store-suite.ts";
import { conversationStoreSuite, conversationTtl } from "../../test/ports/conversation-store-suite.ts";
import { eventBusSuite } from "../../test/ports/event-bus-suite.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { secretStoreSuite } from "../../test/ports/secret-store-suite.ts";
import { visibilityStoreSuite } from "../../test/ports/visibility-store-suite.ts";
import { worktreeStoreSuite } from "../../test/ports/worktree-store-suite.ts";
import { instancesSuite } from "../../test/ports/instances-suite.ts";
import { locksSuite } from "../../test/ports/locks-suite.ts";
import { afterFile } from "../../test/cleanup.ts";
import { kvPairs, openKv } from "../../test/kv.ts";
import { openRedisJobStore } from "../../test/open-stores.ts";
import { redisKinds } from "../../test/redis-kinds.ts";
import { everythingVisible } from "../contract/visibility.ts";
import { fileLimits, type TaskFile } from "../contract/run-options.ts";
import { failureOf } from "../kv/failure.ts";
import type { Kv } from "../kv/kv.ts";
import { createRedisNotifier } from "../kv/redis-notifier.ts";
import { createLog } from "../lib/log.ts";
import { identify } from "../lib/process/identity.ts";
import { completionKind, createCompletionStore } from "./completion-store.ts";
import { conversationKind, createConversationStore } from "./conversation-store.ts";
import { createEventBus, eventBusLog } from "./event-bus.ts";
import { createRedisInstances } from "./instances.ts";
import { createRedisLocks } from "./redis-leases.ts";
import { createRedisLogs } from "./redis-logs.ts";
import { openRedisRecords } from "./redis-records.ts";
import { createTaskFiles, taskFilesKind } from "./task-files.ts";
import { createSecretStore, secretKind } from "./secret-store.ts";
import { createVisibilityStore, visibilityKind } from "./visibility-store.ts";
import { createWorktreeStore, worktreeKind } from "./worktree-store.ts";

const log = createLog("silent", (line) => line);
const now = (): Date => new Date();
const instances = kvPairs();
const visibilitiesOn = (kv: Kv) => createVisibilityStore(openRedisRecords(visibilityKind, { kv, now, log }));
const everything = { limit: 100, status: "", cursor: "" } as const;

for (const [kind, url] of redisKinds()) {
  conversationStoreSuite(kind, {
    open: async (clock) => {
      const [a, b] = await instances(url);
      const on = (kv: Kv) =>
        createConversationStore(
          openRedisRecords(conversationKind(conversationTtl), { kv, now: () => clock.now, log }),
        );
      return { store: on(a), reopen: async () => on(b) };
    },
  });

  visibilityStoreSuite(kind, {
    open: async () => {
      const [a, b] = await instances(url);
      return { store: visibilitiesOn(a), rival: visibilitiesOn(b), reopen: async () => visibilitiesOn(b) };
    },
  });

  secretStoreSuite(kind, {
    open: async () => {
      const [a, b] = await instances(url);
      const on = (kv: Kv) => createSecretStore(openRedisRecords(secretKind, { kv, now, log }));
      return { store: on(a), reopen: async () => on(b) };
    },
  });

  completionStoreSuite(kind, {
    open: async (clock) => {
      const [a, b] = await instances(url);
      const on = (kv: Kv) =>
        createCompletionStore(
          openRedisRecords(completionKind(completionTtl), { kv, now: () => clock.now, log }),
        );
      return { store: on(a), rival: on(b), reopen: async () => on(b) };
    },
  });

  worktreeStoreSuite(kind, {
    open: async () => {
      const [a, b] = await instances(url);
      const on = (kv: Kv) => createWorktreeStore(openRedisRecords(worktreeKind, { kv, now, log }));
      return { store: on(a), reopen: async () => on(b) };
    },
  });

  eventBusSuite(kind, {
    open: async () => {
      const [a, b] = await instances(url);
      const on = (kv: Kv) =>
        createEventBus({
          logs: createRedisLogs({ ...eventBusLog, kv, notifier: createRedisNotifier({ kv, log }) }),
          now,
          log,
        });
      return { bus: on(a), other: on(b) };
    },
  });

  instancesSuite(kind, {
    open: async (name) => {
      const [[kv], self] = [await instances(url), await identify(process.pid)];
      return createRedisInstances({ kv, name, self, leaseSeconds: 30, log });
    },
  });

  locksSuite(kind, {
    open: async () => {
      const [a, b] = await instances(url);
      const on = (kv: Kv) => {
        const locks = createRedisLocks({
          kv,
          leaseSeconds: 30,
          owner: { podName: randomUUID(), epoch: "1" },
        });
        afterFile(() => locks.close());
        return locks;
      };
      return [on(a), on(b)];
    },
  });

  describe(kind, () => {
    test("the key of a visibility is the one that is documented", async () => {
      const [kv] = await instances(url);
      await visibilitiesOn(kv).change("hub", () => everythingVisible);
      const key = `${kv.prefix}:stream_config:hub`;
      expect(JSON.parse((await kv.client.get(key)) ?? "")).toEqual(everythingVisible);
      expect(await kv.client.ttl(key)).toBe(-1);
    });

    test("the files of a job are kept, as many as there may be, until they are removed; no command or answer is large", async () => {
      const [kv] = await instances(url);
      // The server ends a connection that sends, or waits for, more at once.
      for (const node of kv.client instanceof Cluster ? kv.client.nodes("master") : [kv.client]) {
        await node.config("SET", "client-query-buffer-limit", "4mb");
        await node.config("SET", "client-output-buffer-limit", "normal 4mb 0 0");
      }
      const store = createTaskFiles(openRedisRecords(taskFilesKind, { kv, now, log }));
      const [id, content] = [randomUUID(), Buffer.alloc(fileLimits.bytes, 7).toString("base64")];
      const files: TaskFile[] = [{ name: "a.bin", content, encoding: "base64" }];
      expect(await store.get(id)).toBeNull();
      // A repeated submission stores them again.
      for (let time = 0; time < 2; time += 1) await store.put(id, files);
      // Not `toEqual`, which would print them.
      expect(JSON.stringify(await store.get(id)) === JSON.stringify(files)).toBe(true);
      await store.remove(id);
      expect(await store.get(id)).toBeNull();
    });

    const startSpoilt = async () => {
      // The prefix is in what is said.
      const kv = await openKv(await url());
      const warnings: string[] = [];
      const spoil = async (...parts: string[]): Promise<string> => {
        await kv.client.del(kv.jobKey(...parts));
        await kv.client.set(kv.jobKey(...parts), "x");
        return kv.jobKey(...parts);
      };
      const noting = createLog("warn", (line) => (warnings.push(line), ""));
      return { kv, store: openRedisJobStore({ kv, podName: "pod", log: noting }), spoil, warnings };
    };

    test("reads and writes name an index that somebody has overwritten, and nothing is half done", async () => {
      const { kv, store, spoil } = await startSpoilt();
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

    test("the job of a record that somebody has overwritten is unknown, and the others are visible", async () => {
      const { store, spoil, warnings } = await startSpoilt();
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
}
