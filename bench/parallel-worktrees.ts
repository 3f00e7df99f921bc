import { join } from "node:path";
import { git, makeRemoteIn } from "../test/remote.ts";
import { until } from "../test/until.ts";
import type { Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const parallel = 20;

/** 20 jobs on one repository at once, cold cache, against 20 `git fetch && git worktree add` at once without a lock. */
export const parallelWorktrees = (): Promise<Figure[]> =>
  withDirectory(async (directory) => {
    const remote = await makeRemoteIn(
      directory,
      Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`${n}.txt`, `${n}\n`])),
    );
    const byHand = join(directory, "by-hand.git");
    await git(directory, "clone", "--quiet", "--bare", remote.path, byHand);
    await git(byHand, "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*");
    const attempts = await Promise.allSettled(
      Array.from({ length: parallel }, async (_, n) => {
        await git(byHand, "fetch", "--quiet", "origin");
        await git(
          byHand,
          "worktree",
          "add",
          "--quiet",
          "-b",
          `hand-${n}`,
          join(directory, `hand-${n}`),
          "origin/main",
        );
      }),
    );
    const failedByHand = attempts.filter(({ status }) => status === "rejected").length;
    return await withService(directory, { SERVICE_MAX_PARALLEL_JOBS: String(parallel) }, async (service) => {
      const ids = await Promise.all(
        Array.from(
          { length: parallel },
          async () =>
            (await service.client.run_task({ task: "scenario: noop", repo_url: remote.path })).job.id,
        ),
      );
      const jobs = await Promise.all(
        ids.map((id) =>
          until(
            async () => {
              const { job } = await service.client.get_job({ job_id: id });
              return job.ended_at === null ? null : job;
            },
            { seconds: 120 },
          ),
        ),
      );
      const failed = jobs.filter((job) => job.status !== "succeeded").length;
      return [
        {
          what: "20 parallel worktrees of one repository",
          ours: `${failed} failures`,
          baseline: `${failedByHand} failures (git without a lock)`,
          value: failed,
          unit: "failures",
          target: "0",
          met: failed === 0,
        },
      ];
    });
  });
