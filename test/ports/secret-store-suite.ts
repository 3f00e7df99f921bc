import { describe, expect, test } from "vitest";
import type { SecretRecord, SecretStore } from "../../src/store/secret-store.ts";

type Harness = {
  /** An empty store, and how to reopen it. */
  open: () => Promise<{ store: SecretStore; reopen: () => Promise<SecretStore> }>;
};

const sampleSecret = (over: Partial<SecretRecord> = {}): SecretRecord => ({
  name: "TOKEN",
  repo: "github.com/acme/*",
  phase: "setup",
  hosts: ["npm.acme.example"],
  header: null,
  plain: false,
  branches: [],
  created_at: "2026-01-02T03:04:05.000Z",
  sealed: "AAAA",
  ...over,
});

/** The behaviour of every adapter of the store of secrets. */
export const secretStoreSuite = (name: string, { open }: Harness): void => {
  describe(`secret store: ${name}`, () => {
    test("a secret is known by name, repository and phase, and survives a restart", async () => {
      const { store, reopen } = await open();
      const [one, other, checks] = [
        sampleSecret(),
        sampleSecret({ repo: "*" }),
        sampleSecret({ phase: "checks" }),
      ];
      for (const each of [one, other, checks]) await store.put(each);
      const anew = sampleSecret({ sealed: "BBBB" });
      await store.put(anew);
      const again = await reopen();
      expect(await again.ofPhase("setup")).toEqual(expect.arrayContaining([anew, other]));
      expect(await again.ofPhase("setup")).toHaveLength(2);
      expect(await again.ofPhase("checks")).toEqual([checks]);
      expect(await again.ofPhase("agent")).toEqual([]);
      expect(await again.all()).toHaveLength(3);
      expect(await again.remove(anew)).toEqual(anew);
      expect(await again.remove(anew)).toBeNull();
      expect(await again.ofPhase("setup")).toEqual([other]);
    });
  });
};
