import { describe, expect, test } from "vitest";
import type { Locks } from "../../src/store/locks.ts";

type Harness = {
  /** Free locks; of one instance, or of two that share them. */
  open: () => Promise<[Locks, Locks]>;
};

/** The behaviour of every adapter of the locks. */
export const locksSuite = (name: string, { open }: Harness): void => {
  describe(`locks: ${name}`, () => {
    test("a taken lock is refused on every instance until it is released", async () => {
      const [a, b] = await open();
      const lock = await a.take("x");
      expect(lock).not.toBeNull();
      expect([await a.take("x"), await b.take("x")]).toEqual([null, null]);
      await lock?.release();
      const next = await b.take("x");
      expect(next).not.toBeNull();
      expect(await a.take("x")).toBeNull();
    });

    test("different names are independent, whatever text they are", async () => {
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
      for (const lockName of names) expect(await a.take(lockName)).not.toBeNull();
      for (const lockName of names) expect(await b.take(lockName)).toBeNull();
    });

    test("exactly one of many concurrent callers gets the lock", async () => {
      const [a, b] = await open();
      const attempts = Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? a : b).take("x"));
      expect((await Promise.all(attempts)).filter((lock) => lock !== null)).toHaveLength(1);
    });

    test("a second release does not free the lock of the next holder", async () => {
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
