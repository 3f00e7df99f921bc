import { describe, expect, test } from "vitest";
import { everythingVisible } from "../../src/contract/visibility.ts";
import type { VisibilityStore } from "../../src/store/visibility-store.ts";

type Harness = {
  /** An empty store, another writer to it (itself, where there can be no other), and how to reopen it. */
  open: () => Promise<{
    store: VisibilityStore;
    rival: VisibilityStore;
    reopen: () => Promise<VisibilityStore>;
  }>;
};

/** The behaviour of every adapter of the visibility store. */
export const visibilityStoreSuite = (name: string, { open }: Harness): void => {
  describe(`visibility store: ${name}`, () => {
    test("the visibility of an agent survives a restart, and other agents have none", async () => {
      const { store, reopen } = await open();
      expect(await store.get("hub.agent_1")).toBeNull();
      const quiet = { ...everythingVisible, show_thinking: false };
      await store.change("hub.agent_1", () => everythingVisible);
      expect(await store.change("hub.agent_1", () => quiet)).toEqual(quiet);
      expect(await (await reopen()).get("hub.agent_1")).toEqual(quiet);
      expect(await store.get("hub.agent_2")).toBeNull();
    });

    test("an invalid agent name has no visibility and cannot get one", async () => {
      const { store } = await open();
      for (const wrong of ["", ".", "..", "../../x", "a/b", "a:b", "x".repeat(101)]) {
        expect(await store.get(wrong)).toBeNull();
        await expect(store.change(wrong, () => everythingVisible)).rejects.toThrow(
          "is no id of a visibility",
        );
      }
    });

    test("changes of several writers at once all count", async () => {
      const { store, rival } = await open();
      const flags = Object.keys(everythingVisible);
      await Promise.all(
        flags.map((flag, n) =>
          (n % 2 === 0 ? store : rival).change("a", (now) => ({
            ...(now ?? everythingVisible),
            [flag]: false,
          })),
        ),
      );
      expect(await store.get("a")).toEqual(Object.fromEntries(flags.map((flag) => [flag, false])));
    });
  });
};
