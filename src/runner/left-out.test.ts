import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { makeRemote } from "../repos/repos.fixture.ts";
import type { JobRecord } from "../store/job-record.ts";
import { claimJob } from "./runner.fixture.ts";

const agentCliBinary = join(import.meta.dirname, "../../test/e2e/environment-agent");

/** A job whose agent runs a command of the shell; the repository ignores `*.ignored`. */
const claimShell = async (profile: object, run: string, patch: Partial<JobRecord> = {}) => {
  const task = `scenario: shell ${JSON.stringify({ run })}`;
  const job = await claimJob(task, { profile: "ours", ...patch }, { agentCliBinary });
  const profiles = join(job.home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  await writeFile(join(profiles, "ours.yml"), JSON.stringify({ extends: "code", ...profile }));
  await job.remote.commit({ ".gitignore": "*.ignored\n" });
  return job;
};

test("what a reader leaves is named, ignored files and further repositories too; one that left nothing says nothing", async () => {
  const further = await makeRemote({ ".gitignore": "*.ignored\n" });
  const none = {
    path: null,
    branch: null,
    base_sha: null,
    commit_sha: null,
    cached_clone: null,
    pr_url: null,
    error: null,
  };
  const repositories = [{ repo_url: further.url, base_ref: "", ...none }];
  const run =
    "echo 1 > report.ignored; echo 1 > seen.txt; for d in ../*-remote*; do echo 1 > $d/more.ignored; done";
  const job = await claimShell({ extends: "review" }, run, { repositories });
  expect(await job.execute()).toMatchObject({ kind: "succeeded" });
  expect((await job.stored()).warnings).toEqual([
    "The profile may only read; changes were discarded: seen.txt, report.ignored, more.ignored",
  ]);
  const other = await claimShell({ extends: "review" }, "cat .gitignore");
  await other.execute();
  expect((await other.stored()).warnings).toEqual([]);
});

test("what checks leave is nobody's work, also where they were stopped or their instance was lost", async () => {
  const checks = [{ name: "slow", run: "echo 1 > check.ignored; sleep 60" }];
  const job = await claimShell({ checks }, "echo 1 > new.txt; echo 1 > agent.ignored");
  const running = job.execute();
  const place = async () => (await job.stored()).worktree_path;
  await until(async () => ((await job.stored()).commit_sha === null ? null : true));
  await until(async () => ((await readdir(String(await place()))).includes("check.ignored") ? true : null));
  job.interrupt("cancel");
  await running;
  const record = await job.stored();
  const said = record.warnings.join();
  expect(said).toContain("agent.ignored");
  expect(said).not.toContain("check.ignored");
  await writeFile(join(String(record.worktree_path), "later.ignored"), "1\n");
  const checking = { report: null, tell: false };
  const { patch } = await job.settleLost({ ...record, status: "cancelled", checking });
  expect(String(patch.warnings)).not.toContain("later.ignored");
});

test("an attempt that is made again names what the lost one left at ignored paths", async () => {
  const job = await claimShell({}, "echo 1 > outputs.ignored; sleep 60");
  const running = job.execute();
  const path = await until(async () => (await job.stored()).worktree_path);
  await until(async () => (await readdir(path)).includes("outputs.ignored"));
  const lost = await job.settleLost({ ...(await job.stored()), retry_lost: true });
  expect(lost.requeue).toBe(true);
  expect(String(lost.patch.warnings)).toContain("outputs.ignored");
  await running;
});

test("an instance that is lost after a second turn, before its checks, loses nothing of that turn", async () => {
  const second = JSON.stringify({ run: "echo 2 > second.txt; sleep 60" });
  const checks = [{ name: "red", run: `echo 'scenario: shell ${second}'; exit 1` }];
  const job = await claimShell({ checks, check_rounds: 1 }, "echo 1 > first.txt");
  const running = job.execute();
  const path = await until(async () => (await job.stored()).worktree_path);
  await until(async () => (await readdir(path)).includes("second.txt"));
  const checking = { report: null, tell: false };
  const lost = await job.settleLost({ ...(await job.stored()), checking });
  expect(lost.requeue).toBe(true);
  expect(await readdir(path)).toEqual(expect.arrayContaining(["first.txt", "second.txt"]));
  await running;
});
