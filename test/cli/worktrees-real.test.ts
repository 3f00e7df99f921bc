import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import type { Worktree } from "../../src/contract/worktree.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { svc } from "./run-svc.ts";

let service: Service;
let env: Record<string, string>;
beforeAll(async () => {
  service = await startService();
  env = { SERVICE_PORT: new URL(service.url).port };
});

/** Prepares a worktree; its id as svc prints it, its path and branch. */
const prepared = async (repository: string) => {
  const { code, stdout } = await svc(["worktrees", "prepare", repository], { env });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^[0-9a-f-]{36}\n$/) });
  const shown = await svc(["worktrees", "show", stdout.trim(), "--json"], { env });
  const { worktree } = JSON.parse(shown.stdout) as { worktree: Worktree };
  return { id: worktree.worktree_id, path: worktree.path, branch: worktree.branch };
};

/** The commands that svc prints to get saved work back, to be run as they are. */
const saidIn = (page: string) => {
  const [look = "", fetch = ""] = [...page.matchAll(/^.*(?:look at it|fetch it): +(.*)$/gm)].map(
    (match) => match[1],
  );
  return { look, fetch };
};

const shell = async (line: string, cwd: string): Promise<string> => {
  const run = promisify(execFile);
  const { stdout } = await run("sh", ["-c", line], {
    cwd,
    env: { PATH: process.env["PATH"], HOME: service.home },
  });
  return stdout;
};

test("prepare, run in it twice, and get the work back that was not pushed when it was removed", async () => {
  const remote = await makeRemote();
  const { id, path, branch } = await prepared(remote.path);
  expect(await git(path, "branch", "--show-current")).toBe(branch);

  const jobs = [];
  for (const task of ["first", "second"]) {
    const run = await svc(["run", task, "--worktree-id", id, "--wait", "--json"], { env });
    expect(run.code).toBe(0);
    jobs.push((JSON.parse(run.stdout) as { job: { worktree_path: string; branch: string } }).job);
  }
  expect(jobs).toEqual([1, 2].map(() => expect.objectContaining({ worktree_path: path, branch })));
  expect(await remote.branches()).toContain(branch);

  await writeFile(join(path, "later.txt"), "committed\n");
  await git(path, "add", "--all");
  await git(path, "commit", "--quiet", "--message=Later");
  await writeFile(join(path, "later.txt"), "not pushed\n");
  const refused = await svc(["worktrees", "cleanup", path], { env });
  expect(refused.stdout).toMatch(/^left .*\n +It holds work that is not pushed[^]*1 left in place\n$/);
  expect(refused.code).toBe(1);
  const tried = await svc(["worktrees", "cleanup", id, "--force", "--dry-run"], { env });
  expect(tried).toMatchObject({ code: 0, stdout: expect.stringMatching(/^would be removed/) });
  expect(existsSync(join(path, "later.txt"))).toBe(true);
  expect((await svc(["worktrees", "cleanup", id, "--force"], { env })).code).toBe(0);
  expect(existsSync(path)).toBe(false);

  const again = await svc(["worktrees", "cleanup", id], { env });
  expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^was removed before /) });

  const { stdout } = await svc(["worktrees", "show", id], { env });
  expect(stdout).toMatch(/^Status +removed$/m);
  const { look, fetch } = saidIn(stdout);
  const shown = await shell(look, "/");
  expect(shown).toContain("+committed");
  expect(shown).toContain("+not pushed");
  await shell(fetch, remote.work);
  expect(await git(remote.work, "show", `salvaged-${id.slice(0, 8)}:later.txt`)).toBe("not pushed");
});

test("the work of a job without a repository can be restored with what svc prints, when its worktree is there and when it is gone", async () => {
  const left = '{"dirt": true}';
  const brief = await startService({ env: { SERVICE_WORKTREE_TTL: "1" } });
  for (const [at, task] of [
    [service, `scenario: exit-without-result ${left}`],
    [brief, `scenario: commit-dirt ${left}`],
  ] as const) {
    const there = { env: { SERVICE_PORT: new URL(at.url).port } };
    const { stdout: id } = await svc(["run", task], there);
    const job = await until(async () => {
      const { job: now } = await at.client.get_job({ job_id: id.trim() });
      const isOver = now.salvage_ref !== null && (at === service || !existsSync(String(now.worktree_path)));
      return isOver ? now : null;
    });
    expect(existsSync(String(job.worktree_path))).toBe(at === service);
    const own = await temporaryDirectory();
    await git(own, "init", "--quiet");
    const page = (await svc(["job", job.id], there)).stdout;
    const [look = "", fetch = ""] = [...page.matchAll(/svc (diff|apply) [0-9a-f]{8}/g)].map(([said]) => said);
    const said = (line: string) => svc(line.split(" ").slice(1), { ...there, cwd: own });
    expect((await said(look)).stdout).toContain("dirt.txt");
    expect(await said(fetch)).toMatchObject({ code: 0 });
    expect(existsSync(join(own, "dirt.txt"))).toBe(true);
  }
});

test("the beginning of its id, also in the name of its branch, is enough for one", async () => {
  const { id, branch } = await prepared((await makeRemote()).path);
  expect(branch).toBe(`service/wt-${id.slice(0, 8)}`);
  const show = await svc(["worktrees", "show", branch], { env });
  expect(show.stdout).toMatch(new RegExp(`^ID +${id}$`, "m"));
  const { stdout } = await svc(["run", "scenario: sleep", "--worktree-id", id.slice(0, 8)], { env });
  const { job } = await service.client.get_job({ job_id: stdout.trim() });
  expect(job.worktree_id).toBe(id);
  expect(await svc(["rm", id.slice(0, 6)], { env })).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^left/),
  });
  expect(await svc(["rm", "-f", id.slice(0, 6)], { env })).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^removed/),
  });
});

test("a force ends the job at work in it and names it, and so does the try before", async () => {
  const { id } = await prepared((await makeRemote()).path);
  const { stdout } = await svc(["run", "scenario: sleep", "--worktree-id", id], { env });
  const job = stdout.trim();
  await until(async () => (await service.client.get_job({ job_id: job })).job.status === "running");
  const forced = ["worktrees", "cleanup", id, "--force"];
  expect((await svc([...forced, "--dry-run"], { env })).stdout).toContain(`would be cancelled: ${job}\n`);
  expect((await svc(forced, { env })).stdout).toContain(`    cancelled: ${job}\n`);
  const shown = await svc(["job", job], { env });
  expect(shown.stdout).toMatch(/^Status +cancelled\nError +Cancelled: its worktree was removed with force$/m);
});

test("a preparation that failed says why, and leaves the list by a cleanup", async () => {
  const { path } = await makeRemote();
  const { code, stderr } = await svc(["worktrees", "prepare", path, "--base-ref", "nosuch"], { env });
  expect(code).toBe(1);
  expect(stderr).toMatch(/no branch or tag/);
  const list = async () => (await svc(["worktrees", "list"], { env })).stdout;
  const id = /^(\S+) {2}failed/m.exec(await list())?.[1] ?? "";
  expect((await svc(["worktrees", "cleanup", id], { env })).code).toBe(0);
  expect(await list()).not.toContain(id);
});

test("one whose directory was deleted is shown as failed, and a job makes it again", async () => {
  const { id, path } = await prepared((await makeRemote()).path);
  await rm(path, { recursive: true });
  const { stdout } = await svc(["worktrees", "show", id], { env });
  expect(stdout).toMatch(/^Status +failed\nError +Its directory is missing/m);
  expect((await svc(["run", "go on", "--worktree-id", id, "--wait"], { env })).code).toBe(0);
  expect(await readFile(join(path, "README.md"), "utf8")).toContain("# Test");
});

test("bad input of each command says what is wrong: 1 for what is not there, 2 for what cannot be asked", async () => {
  const remote = await makeRemote();
  const { id } = await prepared(remote.path);
  const foreign = join(service.home, ".service", "worktrees", "mine");
  await mkdir(foreign);
  const cases: [string[], number, RegExp][] = [
    [["worktrees", "show", "nosuch"], 1, /There is no worktree nosuch/],
    [["worktrees", "show", ""], 1, /There is no worktree "": give/],
    [["worktrees", "show", id.slice(0, 3)], 1, /There is no worktree .*at least four digits/],
    [["worktrees", "prepare", ""], 2, /URL is empty/],
    [["worktrees", "prepare", "ext::sh"], 2, /URL/],
    [["worktrees", "prepare", remote.path, "--base-ref", "a..b"], 2, /not a name that git takes/],
    [["worktrees", "prepare", remote.path, "--base-ref", "nosuch"], 1, /no branch or tag "nosuch"/],
    [["worktrees", "prepare", await temporaryDirectory()], 1, /no git repository/],
    [["worktrees", "cleanup", "nosuch"], 1, /There is no worktree of this service/],
    [["worktrees", "cleanup", foreign, "--force"], 1, /There is no worktree of this service/],
    [["run", "x", "--worktree-id", "nosuch"], 1, /There is no worktree nosuch/],
    [["run", "x", "--worktree-id", id, "--repo", "https://elsewhere.invalid/a/b"], 2, /leave --repo out/],
    [["run", "x", "--worktree-id", id, "--base-ref", "dev"], 2, /leave --base-ref out/],
  ];
  for (const [args, exit, words] of cases) {
    const { code, stdout, stderr } = await svc(args, { env });
    expect({ args, code, said: stdout + stderr }).toEqual({
      args,
      code: exit,
      said: expect.stringMatching(words),
    });
  }
  expect(existsSync(foreign)).toBe(true);
});

test("the disk shows each repository with what it takes, and too little room as what it is", async () => {
  const remote = await makeRemote();
  await prepared(remote.path);
  const { code, stdout } = await svc(["disk"], { env });
  expect(stdout).toMatch(new RegExp(`^ *[\\d.]+ KiB +[\\d.]+ KiB +[\\d.]+ KiB +1 +${remote.path}$`, "m"));
  expect(code).toBe(0);

  const full = await startService({ env: { SERVICE_MIN_FREE_DISK_BYTES: "1125899906842624" } });
  const there = { env: { SERVICE_PORT: new URL(full.url).port } };
  expect((await svc(["disk"], there)).stdout).toMatch(/No job is accepted with less than 1\.0 PiB free/);
  for (const args of [
    ["run", "x"],
    ["worktrees", "prepare", remote.path],
  ]) {
    const refused = await svc(args, there);
    expect(refused.stderr).toMatch(/MiB free, less than the/);
    expect(refused.code).toBe(1);
  }
});
