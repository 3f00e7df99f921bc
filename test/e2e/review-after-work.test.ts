import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { until } from "../until.ts";

let service: Service;

beforeAll(async () => {
  service = await startService();
});

/** A worktree in which a job committed something, and more was done since; what a user of git sees of it. */
const workedIn = async () => {
  const remote = await makeRemote({ "README.md": "# Test\n", "gone.txt": "1\n" });
  const job = await asks(service).run({ task: "Do the default thing", repo_url: remote.path });
  const path = String(job.worktree_path);
  await writeFile(join(path, "staged.txt"), "staged\n");
  await git(path, "add", "staged.txt");
  await writeFile(join(path, "staged.txt"), "staged, then changed\n");
  await writeFile(join(path, "dirt.txt"), "precious\n");
  await rm(join(path, "gone.txt"));
  const seen = async () => ({
    head: await git(path, "rev-parse", "HEAD"),
    status: await git(path, "status", "--porcelain", "--branch"),
    staged: await git(path, "diff", "--cached"),
    dirt: await readFile(join(path, "dirt.txt"), "utf8"),
  });
  return { job, path, seen, before: await seen() };
};

test("a review in the worktree of an earlier job discards its own changes and none of the earlier ones, also when it fails", async () => {
  const { job, seen, before } = await workedIn();
  const review = (task: string) =>
    asks(service).run({ task, profile: "review", session_id: String(job.session_id) });
  const done = await review("Review this. scenario: commit-dirt");
  expect(done).toMatchObject({ status: "succeeded", profile: "review", worktree_id: job.worktree_id });
  expect(done.warnings.join()).toMatch(/discarded: committed\.txt, dirt\.txt$/);
  expect(await seen()).toEqual(before);
  const failed = await review('scenario: error-result {"dirt": true}');
  expect(failed).toMatchObject({ status: "failed", failure_reason: "agent_error", salvage_ref: null });
  expect(await seen()).toEqual(before);
});

test("after a crash what a review changed is discarded, and the earlier work is as it was", async () => {
  const { job, seen, before } = await workedIn();
  const { job: review } = await service.client.run_task({
    task: 'scenario: sleep {"dirt": true}',
    profile: "review",
    session_id: String(job.session_id),
  });
  const { worktree_path } = await asks(service).speaking(review.id);
  const { worktrees } = await service.client.list_worktrees({});
  expect(worktrees.map(({ path }) => path)).not.toContain(worktree_path);
  await service.kill();
  const again = await startService({ home: service.home });
  const settled = await asks(again).ended(review.id);
  expect(settled).toMatchObject({ status: "failed", failure_reason: "instance_lost", salvage_ref: null });
  expect(worktree_path).not.toBe(job.worktree_path);
  await until(() => !existsSync(String(worktree_path)), { what: "the throwaway worktree to be removed" });
  expect(await seen()).toEqual(before);
});
