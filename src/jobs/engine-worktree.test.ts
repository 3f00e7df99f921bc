import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { never, startEngine } from "./engine.fixture.ts";
import type { Execute } from "./run.ts";

const session = "6f0c2b1e-7d0a-4d0e-9b7c-1f2e3d4c5b6a";

test("a job that resumes a session while its worktree is being removed starts when that is done", async () => {
  const happened: string[] = [];
  const removal = Promise.withResolvers<void>();
  const execute: Execute = async (record, run) => {
    happened.push("job");
    await run.record({
      session_id: session,
      worktree_id: record.worktree_id ?? record.id,
      worktree_path: "/w",
    });
    return { kind: "succeeded", patch: {} };
  };
  let clock = Date.now();
  const engine = await startEngine({
    execute,
    now: () => new Date(clock),
    removeWorktree: async () => {
      happened.push("removal");
      await removal.promise;
      happened.push("removed");
    },
  });
  engine.work();
  const first = await engine.submit();
  await engine.jobs.untilFinal(first.id, never);
  clock += 31_000;
  const round = engine.round();
  await until(() => happened.includes("removal"));
  const second = await engine.submit({ session_id: session });
  const other = await engine.submit();
  await engine.jobs.untilFinal(other.id, never);
  expect((await engine.jobs.get(second.id)).status).toBe("queued");
  removal.resolve();
  await round;
  await engine.jobs.untilFinal(second.id, never);
  expect(happened).toEqual(["job", "removal", "job", "removed", "job"]);
});
