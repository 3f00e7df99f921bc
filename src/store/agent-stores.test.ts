import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { completionStoreSuite, completionTtl } from "../../test/ports/completion-store-suite.ts";
import { conversationStoreSuite, conversationTtl } from "../../test/ports/conversation-store-suite.ts";
import { eventBusSuite } from "../../test/ports/event-bus-suite.ts";
import { visibilityStoreSuite } from "../../test/ports/visibility-store-suite.ts";
import { openKv } from "../../test/kv.ts";
import { redisKinds } from "../../test/redis-kinds.ts";
import type { Kv } from "../kv/kv.ts";
import { createRedisNotifier } from "../kv/redis-notifier.ts";
import { createLog } from "../lib/log.ts";
import { completionKind, createCompletionStore } from "./completion-store.ts";
import { conversationKind, createConversationStore } from "./conversation-store.ts";
import { createEventBus, eventBusLog } from "./event-bus.ts";
import { createRedisLogs } from "./redis-logs.ts";
import { openRedisRecords } from "./redis-records.ts";
import { createVisibilityStore, visibilityKind } from "./visibility-store.ts";

const log = createLog("silent", (line) => line);

/** Connections of two instances, made once per kind of server; every store has its own prefix. */
const pairs = new Map<string, Promise<[Kv, Kv]>>();
const pairOf = async (url: string): Promise<[Kv, Kv]> => await Promise.all([openKv(url), openKv(url)]);

const under = (kv: Kv, prefix: string): Kv => ({
  ...kv,
  prefix,
  key: (...parts) => [prefix, ...parts].join(":"),
  jobKey: (...parts) => [`{${prefix}:j}`, ...parts].join(":"),
});

/** Two instances on an empty store. */
const instances = async (url: () => Promise<string>): Promise<[Kv, Kv]> => {
  const address = await url();
  const pair = pairs.get(address) ?? pairOf(address);
  pairs.set(address, pair);
  const prefix = `test-${randomUUID()}`;
  const [a, b] = await pair;
  return [under(a, prefix), under(b, prefix)];
};

const visibilitiesOn = (kv: Kv) =>
  createVisibilityStore(openRedisRecords(visibilityKind, { kv, now: () => new Date(), log }));

const kinds = redisKinds();

for (const [kind, url] of kinds) {
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
      const on = visibilitiesOn;
      return { store: on(a), rival: on(b), reopen: async () => on(b) };
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

  eventBusSuite(kind, {
    open: async () => {
      const [a, b] = await instances(url);
      const on = (kv: Kv) =>
        createEventBus({
          logs: createRedisLogs({ ...eventBusLog, kv, notifier: createRedisNotifier({ kv, log }) }),
          now: () => new Date(),
          log,
        });
      return { bus: on(a), other: on(b) };
    },
  });
}

test.each(kinds)("keys on a %s are those that are documented", async (_kind, url) => {
  const [kv] = await instances(url);
  const store = visibilitiesOn(kv);
  const flags = {
    show_thinking: true,
    show_tools: true,
    show_text: true,
    show_narration: true,
    show_final: true,
  };
  await store.change("hub", () => flags);
  expect(JSON.parse((await kv.client.get(`${kv.prefix}:stream_config:hub`)) ?? "")).toEqual(flags);
  expect(await kv.client.ttl(`${kv.prefix}:stream_config:hub`)).toBe(-1);
});
