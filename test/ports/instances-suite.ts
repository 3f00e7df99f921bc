import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { InstanceFacts, Instances } from "../../src/store/instances.ts";

type Harness = {
  /** An instance of that name on an empty store. */
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
  address: null,
  agent_mode: false,
  ...over,
});

/** The behaviour of every adapter of the instances. */
export const instancesSuite = (name: string, { open }: Harness): void => {
  describe(`instances: ${name}`, () => {
    test("a joined instance is listed with its latest facts until it leaves", async () => {
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

    test("a request to drain lasts until it is withdrawn", async () => {
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
