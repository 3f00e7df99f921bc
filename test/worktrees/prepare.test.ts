import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { codeOf, slowGit, worktreeAsks } from "./worktree-world.ts";

let service: Service;
let remote: Awaited<ReturnType<typeof makeRemote>>;

beforeAll(async () => {
  const home = await temporaryDirectory();
  const profiles = join(home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  await writeFile(join(profiles, "quiet.yml"), "extends: code\nauto_pr: false\n");
  service = await startService({ home, env: { GIT_HOST: "git.invalid" } });
  remote = await makeRemote();
});

test("a prepared worktree stands ready on a branch of its own, and list and get show it", async () => {
  const { prepare, get, list } = worktreeAsks(service);
  const worktree = await prepare(remote.path);
  const { worktree_id: id } = worktree;
  expect(worktree).toMatchObject({
    repo_url: remote.path,
    base_ref: "main",
    branch: `service/wt-${id.slice(0, 8)}`,
    path: join(service.home, ".service", "worktrees", id),
    status: "ready",
    job_id: null,
    pod_name: "test-pod",
    pushed: true,
    prepared: true,
    salvage_ref: null,
    warnings: [],
    error: null,
  });
  expect(worktree.size_bytes).toBeGreaterThan(0);
  expect(worktree.age_hours).toBeLessThan(1);
  expect(await readFile(join(worktree.path, "README.md"), "utf8")).toBe("# Test\n");
  expect(await git(worktree.path, "branch", "--show-current")).toBe(worktree.branch);
  expect(await get(id)).toMatchObject({ worktree_id: id, status: "ready", path: worktree.path });
  expect((await list()).map(({ worktree_id }) => worktree_id)).toContain(id);
});

test("base_ref left out is the default branch of a repository without main, and the worktree names it", async () => {
  const trunk = await makeRemote();
  await git(trunk.path, "branch", "-m", "main", "trunk");
  const { worktree } = await service.client.prepare_worktree({ repo_url: trunk.path });
  expect(worktree).toMatchObject({ status: "ready", base_ref: "trunk" });
  const { worktree_id } = worktree;
  expect(await asks(service).run({ task: 'scenario: work {"file": "one.txt"}', worktree_id })).toMatchObject({
    status: "succeeded",
    base_ref: "trunk",
  });
});

test("jobs that name it run in it, one after another, and each finds the work of the one before; one that may only read leaves it", async () => {
  const { prepare, get } = worktreeAsks(service);
  const ask = asks(service);
  const worktree = await prepare(remote.path);
  const { worktree_id, path } = worktree;
  const files = () => git(path, "ls-files");
  const first = await ask.submit({ task: 'scenario: work {"file": "one.txt", "ms": 300}', worktree_id });
  const second = await ask.submit({ task: 'scenario: work {"file": "two.txt"}', worktree_id });
  await ask.when(first.id, ({ status }) => status === "running", "to run");
  expect(await get(worktree_id)).toMatchObject({ status: "in_use", job_id: first.id, pushed: null });
  const [one, two] = [await ask.ended(first.id), await ask.ended(second.id)];
  for (const job of [one, two]) {
    expect(job).toMatchObject({
      status: "succeeded",
      worktree_id,
      worktree_path: path,
      branch: worktree.branch,
      repo_url: remote.path,
      base_ref: "main",
    });
  }
  expect(String(two.started_at) >= String(one.ended_at)).toBe(true);
  expect(await files()).toBe("README.md\none.txt\ntwo.txt");

  // Whether all is pushed is reported again as soon as a job has ended.
  expect(await get(worktree_id)).toMatchObject({ status: "ready", job_id: second.id, pushed: true });
  await ask.run({ task: "scenario: commit-dirt", worktree_id, profile: "quiet" });
  expect((await get(worktree_id)).pushed).toBe(false);

  const before = await files();
  await writeFile(join(path, "by-hand.txt"), "not committed\n");
  const task = 'scenario: work {"file": "forbidden.txt"}';
  const review = await ask.run({ task, worktree_id, profile: "review" });
  expect(review.warnings.join()).toContain("forbidden.txt");
  expect(await files()).toBe(before);
  expect(await readFile(join(path, "by-hand.txt"), "utf8")).toBe("not committed\n");
  expect(existsSync(join(path, "forbidden.txt"))).toBe(false);
});

test("the worktree of an ended job can be worked on in by a later one, which gets it back from its branch when somebody deleted it", async () => {
  const { list, get } = worktreeAsks(service);
  const ask = asks(service);
  const first = await ask.run({ task: 'scenario: work {"file": "one.txt"}', repo_url: remote.path });
  const path = String(first.worktree_path);
  const { id: worktree_id } = first;
  expect((await list()).find((one) => one.worktree_id === worktree_id)).toMatchObject({
    status: "ready",
    prepared: false,
    job_id: first.id,
    path,
  });
  await rm(path, { recursive: true });
  const gone = await get(worktree_id);
  expect(gone).toMatchObject({ status: "failed", size_bytes: null });
  expect(gone.error).toContain("Its directory is missing");
  const second = await ask.run({ task: 'scenario: work {"file": "two.txt"}', worktree_id });
  expect(second).toMatchObject({ status: "succeeded", worktree_path: path, branch: first.branch });
  expect(await git(path, "ls-files")).toBe("README.md\none.txt\ntwo.txt");
  expect(await get(worktree_id)).toMatchObject({ status: "ready", error: null });
});

describe("what cannot be prepared", () => {
  test("is reported to the caller, and stays listed with its error until it is removed", async () => {
    const { list } = worktreeAsks(service);
    const gone = join(await temporaryDirectory(), "nothing-here.git");
    expect(await codeOf(service.client.prepare_worktree({ repo_url: gone }))).toBe("clone_failed");
    const failed = (await list()).find(({ repo_url }) => repo_url === gone);
    expect(failed).toMatchObject({ status: "failed", size_bytes: null, pushed: null });
    expect(failed?.error).toContain("there is no git repository at this path");
    const worktree_id = String(failed?.worktree_id);
    expect(await codeOf(service.client.run_task({ task: "x", worktree_id }))).toBe("worktree_not_ready");
    const { removed } = await service.client.cleanup_worktrees({ paths: worktree_id });
    expect(removed).toBe(1);
    expect((await list()).some((other) => other.worktree_id === worktree_id)).toBe(false);
  });

  test("a branch that is not there names those that are", async () => {
    const asked = service.client.prepare_worktree({ repo_url: remote.path, base_ref: "nowhere" });
    await expect(asked).rejects.toMatchObject({
      code: "worktree_failed",
      status: 400,
      message: expect.stringMatching(/It has: .*main/) as string,
    });
  });

  test("a server that cannot be reached is worth another try", async () => {
    const asked = service.client.prepare_worktree({ repo_url: "http://127.0.0.1:9/acme/app" });
    await expect(asked).rejects.toMatchObject({ code: "repo_unavailable", status: 503 });
  });
});

describe("a job that names a worktree", () => {
  test("of another repository or base, or a session of another worktree, is refused with the reason", async () => {
    const { prepare } = worktreeAsks(service);
    const { worktree_id } = await prepare(remote.path);
    const other = await makeRemote();
    const run = (over: object) => service.client.run_task({ task: "scenario: noop", worktree_id, ...over });
    await expect(run({ repo_url: other.path })).rejects.toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("repo_url: the worktree") as string,
    });
    await expect(run({ base_ref: "develop" })).rejects.toMatchObject({ code: "invalid_request" });
    const elsewhere = await asks(service).run({ task: "scenario: noop", repo_url: remote.path });
    await expect(run({ session_id: elsewhere.session_id })).rejects.toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("session_id: this session ran in the worktree") as string,
    });
    expect(await codeOf(run({ repo_url: `${remote.path}/` }))).toBeNull();
  });

  test("that there is not is 404, whatever the id looks like", async () => {
    for (const worktree_id of ["gone", "../..", "00000000-0000-4000-8000-000000000000", ".owned"]) {
      expect(await codeOf(service.client.run_task({ task: "x", worktree_id }))).toBe("worktree_not_found");
      expect(await codeOf(service.client.get_worktree({ worktree_id }))).toBe("worktree_not_found");
    }
  });
});

test("when the root is another the worktrees of before are reported to be out of reach; moved along they stay usable", async () => {
  const { home } = service;
  const [before, after] = [join(home, ".service", "worktrees"), join(home, "after")];
  const { worktree_id, path } = await worktreeAsks(service).prepare(remote.path);
  await writeFile(join(path, "work.txt"), "not committed\n");
  await service.stop();

  const elsewhere = await startService({ home, env: { SERVICE_WORKTREE_ROOT: after } });
  const lost = await worktreeAsks(elsewhere).get(worktree_id);
  expect(lost).toMatchObject({ status: "failed", path });
  expect(lost.error).toContain("another SERVICE_WORKTREE_ROOT");
  expect(await codeOf(elsewhere.client.run_task({ task: "x", worktree_id }))).toBe("worktree_not_ready");
  const { removed } = await elsewhere.client.cleanup_worktrees({ paths: worktree_id });
  expect(removed).toBe(0);
  await elsewhere.stop();
  await rm(after, { recursive: true, force: true });
  await rename(before, after);

  const { path: slow, hold } = await slowGit(home);
  const env = { SERVICE_WORKTREE_ROOT: after, PATH: slow };
  const moved = await startService({ home, env });
  expect(await worktreeAsks(moved).get(worktree_id)).toMatchObject({
    status: "ready",
    path: join(after, worktree_id),
  });
  const job = await asks(moved).run({ task: 'scenario: work {"file": "one.txt"}', worktree_id });
  expect(job).toMatchObject({ status: "succeeded", worktree_path: join(after, worktree_id) });
  expect(await git(String(job.worktree_path), "ls-files")).toBe("README.md\none.txt\nwork.txt");
  await resumesPreparation(moved, { hold, env });
});

/** A preparation continues when its caller leaves, and is resumed after a crash. */
const resumesPreparation = async (
  crashed: Service,
  { hold, env }: { hold: string; env: NodeJS.ProcessEnv },
) => {
  await writeFile(hold, "");
  const leaving = new AbortController();
  const asked = crashed.client.prepare_worktree({ repo_url: remote.path }, { signal: leaving.signal });
  asked.catch(() => undefined);
  const isPreparing = ({ status }: { status: string }): boolean => status === "preparing";
  const preparing = await until(async () => (await worktreeAsks(crashed).list()).find(isPreparing), {
    what: "it to be listed",
  });
  expect(preparing).toMatchObject({ size_bytes: null, pushed: null });
  leaving.abort();
  await expect(asked).rejects.toThrow(/abort/i);
  const { worktree_id } = preparing;
  expect(await codeOf(crashed.client.run_task({ task: "x", worktree_id }))).toBe("worktree_not_ready");
  await crashed.kill();
  const again = await startService({ home: crashed.home, env });
  expect((await worktreeAsks(again).get(worktree_id)).status).toBe("preparing");
  await rm(hold);
  const ready = await worktreeAsks(again).when(worktree_id, "ready");
  expect(await git(ready.path, "ls-files")).toBe("README.md");
};
