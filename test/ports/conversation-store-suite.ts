import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { ConversationRecord, ConversationStore } from "../../src/store/conversation-store.ts";

/** The clock of the stores under test, and their time to live, s. */
export const conversationTtl = 3600;

type Clock = { now: Date };
type Harness = {
  /** An empty store on the clock, and how to reopen it, as after a restart or on another instance. */
  open: (clock: Clock) => Promise<{ store: ConversationStore; reopen: () => Promise<ConversationStore> }>;
};

export const conversationKey = (name: string): string => createHash("sha256").update(name).digest("hex");

const begin = Date.UTC(2026, 0, 1);
const after = (seconds: number): Date => new Date(begin + seconds * 1000);

export const sampleConversation = (over: Partial<ConversationRecord> = {}): ConversationRecord => ({
  session_id: "0b8f7c1e-0000-4000-8000-000000000001",
  cwd: "/workspaces/one",
  denied: 0,
  answers: ["a".repeat(64), "*"],
  created_at: after(0).toISOString(),
  updated_at: after(0).toISOString(),
  ...over,
});

/** The behaviour of every adapter of the conversation store. */
export const conversationStoreSuite = (name: string, { open }: Harness): void => {
  const key = conversationKey("x");

  describe(`conversation store: ${name}`, () => {
    test("a conversation is read back complete, also after a restart, and can be replaced", async () => {
      const { store, reopen } = await open({ now: after(1) });
      const record = sampleConversation({ cwd: '/späße \u{1F600} "quoted"\n' });
      expect(await store.get(key)).toBeNull();
      await store.put(key, record);
      expect(await store.get(key)).toEqual(record);
      const later = { ...record, answers: [], updated_at: after(1).toISOString() };
      await (await reopen()).put(key, later);
      expect(await (await reopen()).get(key)).toEqual(later);
    });

    test("a removed conversation is unknown", async () => {
      const { store } = await open({ now: after(1) });
      await store.put(key, sampleConversation());
      await store.remove(key);
      await store.remove(key);
      expect(await store.get(key)).toBeNull();
    });

    test("malformed keys are unknown, and cannot be written", async () => {
      const { store } = await open({ now: after(1) });
      for (const wrong of ["", "..", "../../etc/passwd", key.toUpperCase(), `${key}0`, `${key}\n`]) {
        expect(await store.get(wrong)).toBeNull();
        await store.remove(wrong);
        await expect(store.put(wrong, sampleConversation())).rejects.toThrow("64 hex digits");
      }
    });

    test("a conversation expires when it was not written for its time to live", async () => {
      const clock = { now: after(1) };
      const { store, reopen } = await open(clock);
      const [old, young] = [
        sampleConversation({ cwd: "/old" }),
        sampleConversation({ cwd: "/young", updated_at: after(100).toISOString() }),
      ];
      await store.put(key, old);
      await store.put(conversationKey("young"), young);
      await store.expire(after(conversationTtl - 1));
      expect(await store.get(key)).toEqual(old);
      clock.now = after(conversationTtl);
      expect(await store.get(key)).toBeNull();
      await store.expire(clock.now);
      expect(await (await reopen()).get(key)).toBeNull();
      expect(await store.get(conversationKey("young"))).toEqual(young);
    });

    test("a conversation that is written again does not expire, also if it had expired", async () => {
      const clock = { now: after(1) };
      const { store } = await open(clock);
      await store.put(key, sampleConversation());
      clock.now = after(2 * conversationTtl);
      const again = sampleConversation({ updated_at: clock.now.toISOString() });
      await store.put(key, again);
      await store.expire(clock.now);
      expect(await store.get(key)).toEqual(again);
      clock.now = after(3 * conversationTtl);
      await store.expire(clock.now);
      expect(await store.get(key)).toBeNull();
      await store.put(key, { ...again, updated_at: clock.now.toISOString() });
      expect(await store.get(key)).toMatchObject({ cwd: again.cwd });
    });
  });
};
