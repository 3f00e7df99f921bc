import { describe, expect, test } from "vitest";
import { everythingVisible } from "../../src/contract/visibility.ts";
import type { VisibilityStore } from "../../src/store/visibility-store.ts";

type Harness = {
  /** An empty store, and how to reopen it. */
  open: () => Promise<{ store: VisibilityStore; reopen: () => Promise<VisibilityStore> }>;
};

/** The behaviour of every adapter of the visibility store. */
export const visibilityStoreSuite = (name: string, { open }: Harness): void => {
  describe(`visibility store: ${name}`, () => {
    test("the visibility of an agent survives a restart, and other agents have none", async () => {
      const { store, reopen } = await open();
      expect(await store.get("hub.agent_1")).toBeNull();
      const quiet = { ...everythingVisible, show_thinking: false };
      await store.set("hub.agent_1", everythingVisible);
      await store.set("hub.agent_1", quiet);
      expect(await (await reopen()).get("hub.agent_1")).toEqual(quiet);
      expect(await store.get("hub.agent_2")).toBeNull();
    });

    test("an invalid agent name has no visibility and cannot get one", async () => {
      const { store } = await open();
      for (const wrong of ["", ".", "..", "../../x", "a/b", "a:b", "x".repeat(101)]) {
        expect(await store.get(wrong)).toBeNull();
        await expect(store.set(wrong, everythingVisible)).rejects.toThrow("is no id of a visibility");
      }
    });

    test("after concurrent writes the last one stays", async () => {
      const { store } = await open();
      const values = Array.from({ length: 20 }, (_, n) => ({ ...everythingVisible, show_text: n % 2 === 0 }));
      await Promise.all(values.map((value) => store.set("a", value)));
      expect(await store.get("a")).toEqual(values.at(-1));
    });
  });
};
