import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { never, startEngine } from "./engine.fixture.ts";

test("every job that continues a session waits for the instance that has its worktree, also behind one that waits", async () => {
  const session = randomUUID();
  const engine = await startEngine({
    holder: "pod",
    execute: async () => ({ kind: "succeeded", patch: { session_id: session } }),
  });
  engine.work();
  const first = await engine.submit();
  expect(first.bound_to).toBeNull();
  await engine.jobs.untilFinal(first.id, never);
  engine.queue.pause();
  const second = await engine.submit({ session_id: session });
  const third = await engine.submit({ session_id: session });
  expect([second.bound_to, third.bound_to]).toEqual(["pod", "pod"]);
  expect((await engine.submit()).bound_to).toBeNull();
});
