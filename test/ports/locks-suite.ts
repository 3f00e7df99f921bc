import { describe, expect, test } from "vitest";
import type { Locks } from "../../src/store/locks.ts";

type Harness = {
  /** Locks that nobody holds; those of one instance, or of two that share them. */
  open: () => Promise<[Locks, Locks]>;
};

/** What every adapter of the locks must do. */
export const locksSuite = (name: string, { open }: Harness): void => {
  describe(`locks: ${name}`, () => {
    test("what is taken is not given to another, on any instance, until it is given back", async () => {
      const [a, b] = await open();
      const lock = await a.take("x");
      expect(lock).not.toBeNull();
      expect([await a.take("x"), await b.take("x")]).toEqual([null, null]);
      await lock?.release();
      const next = await b.take("x");
      expect(next).not.toBeNull();
      expect(await a.take("x")).toBeNull();
    });

    test("different names do not hinder each other, whatever text they are", async () => {
      const [a, b] = await open();
      const names = [
        "a",
        "A",
        "a:b",
        "a b",
        "repo https://x/{y}?*[z]",
        "{j}",
        "späße\n\u0000",
        "",
        "x".repeat(5000),
      ];
      for (const one of names) expect(await a.take(one)).not.toBeNull();
      for (const one of names) expect(await b.take(one)).toBeNull();
    });

    test("of many who want it at once one gets it", async () => {
      const [a, b] = await open();
      const asked = Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? a : b).take("x"));
      expect((await Promise.all(asked)).filter((lock) => lock !== null)).toHaveLength(1);
    });

    test("given back twice, it is not taken from the next holder", async () => {
      const [a, b] = await open();
      const first = await a.take("x");
      await first?.release();
      const second = await b.take("x");
      await first?.release();
      expect(await a.take("x")).toBeNull();
      expect(second?.lost.aborted).toBe(false);
    });
  });
};
