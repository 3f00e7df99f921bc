import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { spawn } from "node:child_process";
import { expect, test } from "vitest";
import { ServiceError } from "../../src/contract/errors.ts";
import { plainGit } from "../../src/repos/plain-git.fixture.ts";
import { savedDirOf } from "../../src/repos/repos.ts";
import { until } from "../until.ts";
import { makeCluster, type Started } from "./instances.fixture.ts";

const signal = new AbortController().signal;

const two = async () => {
  const cluster = await makeCluster();
  return { cluster, a: await cluster.start("pod-a"), b: await cluster.start("pod-b") };
};

const clean = ({ worktrees }: Started, paths: string, over: { force?: boolean; dry_run?: boolean } = {}) =>
  worktrees.cleanup({ paths, max_age_hours: 0, force: false, dry_run: false, ...over }, {});

const all = { limit: 100, cursor: "" };

const ids = async ({ repos }: Started): Promise<string[]> => repos.listWorktreeIds();

test("a worktree of another instance is reported from its record and its jobs, and removed by that one only; one of a lost instance takes no job", async () => {
  const { cluster, a, b } = await two();
  const made = await cluster.prepare(a);
  const seen = await b.worktrees.get(made.worktree_id);
  expect(seen).toMatchObject({
    status: "ready",
    error: null,
    pod_name: "pod-a",
    path: made.path,
    size_bytes: null,
    pushed: null,
    prepared: true,
    warnings: [expect.stringContaining("on the disk of the instance pod-a")],
  });
  expect((await b.worktrees.list(all)).worktrees).toEqual([
    { ...seen, age_hours: expect.any(Number) as number },
  ]);
  const job = await cluster.submit(b, made.worktree_id);
  expect(job.bound_to).toBe("pod-a");
  expect(await b.worktrees.get(made.worktree_id)).toMatchObject({ status: "in_use", job_id: job.id });
  expect((await b.worktrees.usage()).map(({ worktrees }) => worktrees)).toEqual([0]);
  await b.deps.endJob(job.id, "test", signal);

  const { id: ofJob } = await cluster.ran(a);
  const both = `${made.worktree_id},${ofJob}`;
  for (const force of [false, true]) {
    const { removed, results } = await clean(b, both, { force });
    expect(removed).toBe(0);
    for (const { error } of results) expect(error).toContain("on the disk of the instance pod-a; ask that");
  }
  cluster.dead.add("pod-a");
  for (const each of [made.worktree_id, ofJob]) {
    const lost = { status: "ready", error: "Its instance pod-a does not answer" };
    expect(await b.worktrees.get(each)).toMatchObject(lost);
    await expect(cluster.submit(b, each)).rejects.toMatchObject({
      code: "worktree_not_ready",
      message: expect.stringContaining("its instance pod-a does not answer") as string,
    });
  }
  cluster.dead.delete("pod-a");
  expect((await clean(a, both)).removed).toBe(2);

  const failed = { status: "failed", error: "no room" } as const;
  const { worktree_id } = await cluster.prepare(a);
  await cluster.records.update(worktree_id, ["ready"], failed);
  expect(await b.worktrees.get(worktree_id)).toMatchObject(failed);
});

test("the worktree of a job is found from every instance as long as it stands", async () => {
  const { cluster, a, b } = await two();
  const job = await cluster.ran(a);
  expect(await b.worktrees.get(job.id)).toMatchObject({
    worktree_id: job.id,
    status: "ready",
    path: job.worktree_path,
    branch: job.branch,
    repo_key: expect.stringMatching(/^[0-9a-f]{12}$/) as string,
    pod_name: "pod-a",
    job_id: job.id,
    prepared: false,
  });
  expect(await b.worktrees.list(all)).toEqual({ worktrees: [], next: null });
  const next = await cluster.submit(b, job.id);
  expect(next).toMatchObject({ bound_to: "pod-a", worktree_id: job.id, branch: job.branch });
  expect(await b.worktrees.get(job.id)).toMatchObject({ status: "in_use", job_id: next.id });
  await b.deps.endJob(next.id, "test", signal);
  await a.worktrees.release((await cluster.jobs.get(next.id)) ?? job, signal);
  await expect(b.worktrees.get(job.id)).rejects.toThrow("There is no worktree");
  await expect(cluster.submit(b, job.id)).rejects.toMatchObject({ code: "worktree_not_found" });
});

test("one whose instance is lost is forgotten by force, and removed by that instance when it is back, its work saved", async () => {
  const { cluster, a, b } = await two();
  const { worktree_id: id, path } = await cluster.prepare(a);
  const waiting = await cluster.submit(b, id);
  await writeFile(join(path, "work.txt"), "not committed\n");
  cluster.dead.add("pod-a");
  const refused = await clean(b, id);
  expect(refused.results[0]?.error).toContain("does not answer; wait until it is back, or use force");
  const told = await clean(b, id, { force: true, dry_run: true });
  expect(told).toMatchObject({ removed: 1, results: [{ success: true, cancelled_jobs: [waiting.id] }] });
  const { removed, results } = await clean(b, id, { force: true });
  expect({ removed, results }).toMatchObject({
    removed: 1,
    results: [{ success: true, cancelled_jobs: [waiting.id], error: expect.stringContaining("Forgotten") }],
  });
  await expect(b.worktrees.get(id)).rejects.toThrow(ServiceError);
  expect((await cluster.jobs.get(waiting.id))?.status).toBe("cancelled");
  cluster.dead.delete("pod-a");
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([]);
  expect(await plainGit(savedDirOf(cluster.repo.gitDir), "show", `refs/service/salvage/${id}:work.txt`)).toBe(
    "not committed",
  );
});

/** A job that was at work on the first instance when that was lost, and is run again by the second. */
const takenOver = async () => {
  const { cluster, a, b } = await two();
  const job = await cluster.ran(a, { status: "running", ended_at: null });
  await writeFile(join(String(job.worktree_path), "lost.txt"), "from a\n");
  const onB = await b.repos.addWorktree({
    repo: cluster.repo,
    worktreeId: job.id,
    jobId: job.id,
    branch: String(job.branch),
    baseRef: "main",
    signal,
  });
  const again = { pod_name: "pod-b", worktree_path: onB.path, attempt: 2 };
  await cluster.jobs.update(job.id, { status: ["running"] }, again);
  return { cluster, a, b, job, onB };
};

test("what a lost instance still has of a job that another has taken over is saved and removed; the other's stays until the job has ended", async () => {
  const { cluster, a, b, job, onB } = await takenOver();
  await writeFile(join(onB.path, "b.txt"), "from b\n");
  expect(await a.worktrees.get(job.id)).toMatchObject({ pod_name: "pod-b", path: onB.path });
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([]);
  expect(existsSync(String(job.worktree_path))).toBe(false);
  const saved = await plainGit(
    savedDirOf(cluster.repo.gitDir),
    "show",
    `refs/service/salvage/${job.id}-pod-a:lost.txt`,
  );
  expect(saved).toBe("from a");
  expect((await cluster.jobs.get(job.id))?.warnings).toEqual([
    expect.stringContaining(`refs/service/salvage/${job.id}-pod-a`),
  ]);
  expect(await plainGit(onB.path, "status", "--short", "--branch")).toBe(
    `## ${String(job.branch)}\n?? b.txt`,
  );
  await b.worktrees.applyRetention(signal);
  expect(await ids(b)).toEqual([job.id]);
  const ended = await cluster.jobs.update(
    job.id,
    { status: ["running"] },
    { status: "succeeded", ended_at: new Date().toISOString(), unsettled: false },
  );
  await b.worktrees.release(ended ?? job, signal);
  expect(await ids(b)).toEqual([]);
});

test("an orphan in which a process is at work is left until that has ended, and found a minute later", async () => {
  const { a, cluster, job } = await takenOver();
  const cwd = String(job.worktree_path);
  const agent = spawn("sleep", ["600"], { cwd, stdio: "ignore" });
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([job.id]);
  agent.kill("SIGKILL");
  await until(() => agent.signalCode !== null || null, { what: "the process to end" });
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([job.id]);
  cluster.clock.ahead += 60_000;
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([]);
});

test("worktrees of jobs that run here, wait for this instance or are kept are no orphans", async () => {
  const { cluster, a } = await two();
  await cluster.ran(a, { status: "running", ended_at: null, unsettled: true });
  await cluster.ran(a, { status: "failed", unsettled: true, worktree_removed_at: new Date().toISOString() });
  await cluster.ran(a);
  await cluster.ran(a, { status: "queued", pod_name: null, ended_at: null });
  const before = await ids(a);
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual(before);
  expect(before).toHaveLength(4);
});

test("a removal that a crash cut short after it was announced is brought to its end", async () => {
  const { cluster, a } = await two();
  const job = await cluster.ran(a);
  await writeFile(join(String(job.worktree_path), "late.txt"), "late\n");
  const at = { worktree_removed_at: new Date().toISOString() };
  await cluster.jobs.update(job.id, { status: ["succeeded"] }, at);
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([]);
  expect(
    await plainGit(savedDirOf(cluster.repo.gitDir), "show", `refs/service/salvage/${job.id}:late.txt`),
  ).toBe("late");
});

test("a worktree whose removal was announced is no less an orphan for a later job that failed before its checkout", async () => {
  const { cluster, a } = await two();
  const at = { worktree_removed_at: new Date().toISOString() };
  const { id } = await cluster.ran(a, at);
  await cluster.store({
    worktree_id: id,
    status: "failed",
    pod_name: a.podName,
    ended_at: at.worktree_removed_at,
    created_at: at.worktree_removed_at,
  });
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([]);
});

test("a worktree that nobody knows is removed when it is as old as any may become, and not where stores are not shared", async () => {
  const { cluster, a } = await two();
  const job = await cluster.ran(a);
  await cluster.jobs.remove(job.id);
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([job.id]);
  cluster.clock.ahead += 86_400_000;
  a.deps.settings.shared = false;
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([job.id]);
  cluster.clock.ahead += 60_000;
  a.deps.settings.shared = true;
  await a.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([]);
});

test("two instances that were given one worktree root by mistake leave each other's alone", async () => {
  const { cluster, a, b } = await two();
  const job = await cluster.ran(a);
  b.deps.repos = a.repos;
  await b.worktrees.applyRetention(signal);
  cluster.clock.ahead += 86_400_000;
  await b.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([job.id]);
  expect((await clean(b, job.id, { force: true })).removed).toBe(0);
});

test("an instance with another name takes over the disk of a lost one, and removes what is old", async () => {
  const { cluster, a } = await two();
  const job = await cluster.ran(a);
  cluster.dead.add("pod-a");
  const renamed = await cluster.start("pod-c");
  renamed.deps.repos = a.repos;
  expect((await renamed.worktrees.get(job.id)).size_bytes).toBeGreaterThan(0);
  await renamed.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([job.id]);
  cluster.clock.ahead += 86_400_000;
  await renamed.worktrees.applyRetention(signal);
  expect(await ids(a)).toEqual([]);
});

test("the change of a running job is answered by its instance, and the others name that one", async () => {
  const { cluster, a, b } = await two();
  const record = await cluster.ran(a, { status: "running", ended_at: null });
  await writeFile(join(String(record.worktree_path), "work.txt"), "work\n");
  const asked = { record, format: "names" as const, repository: "", max_bytes: 1000, signal };
  expect(await a.worktrees.diff(asked)).toMatchObject({ source: "worktree", diff: "work.txt\n", note: null });
  await expect(b.worktrees.diff(asked)).rejects.toMatchObject({
    code: "change_not_found",
    message: expect.stringContaining("on the disk of the instance pod-a") as string,
  });
});
