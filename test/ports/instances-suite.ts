import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { InstanceFacts, Instances } from "../../src/store/instances.ts";

type Harness = {
  /** An instance of that name on a fresh store. */
  open: (name: string) => Promise<Instances>;
};

export const sampleFacts = (over: Partial<InstanceFacts> = {}): InstanceFacts => ({
  name: "pod-a",
  epoch: randomUUID(),
  version: "1.0.0",
  started_at: "2026-01-01T00:00:00.000Z",
  running: 0,
  max_parallel_jobs: 3,
  turns: 0,
  draining: false,
  ...over,
});

/** What every adapter of the instances must do. */
export const instancesSuite = (name: string, { open }: Harness): void => {
  describe(`instances: ${name}`, () => {
    test("an instance that has joined is listed with what it said last, until it leaves", async () => {
      const instances = await open("pod-a");
      expect(await instances.list()).toEqual([]);
      const facts = sampleFacts();
      await instances.join(facts);
      expect(await instances.list()).toEqual([facts]);
      const later = { ...facts, running: 2, draining: true };
      expect(await instances.renew(later)).toBe("renewed");
      expect(await instances.list()).toEqual([later]);
      await instances.leave();
      expect(await instances.list()).toEqual([]);
    });

    test("one that is asked to drain is so until that is taken back", async () => {
      const instances = await open("pod-a");
      await instances.join(sampleFacts());
      expect(await instances.isAskedToDrain()).toBe(false);
      await instances.askToDrain("pod-b", 60);
      expect(await instances.isAskedToDrain()).toBe(false);
      await instances.askToDrain("pod-a", 60);
      expect(await instances.isAskedToDrain()).toBe(true);
      await instances.askToDrain("pod-a", 0);
      expect(await instances.isAskedToDrain()).toBe(false);
    });
  });
};
