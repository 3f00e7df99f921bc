import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { svc } from "./run-svc.ts";

let service: Service;
let env: Record<string, string>;
beforeAll(async () => {
  service = await startService();
  env = { SERVICE_PORT: new URL(service.url).port };
});

/** Prepares a worktree; its id, path and branch as svc prints them. */
const prepared = async (repository: string) => {
  const { code, stdout } = await svc(["worktrees", "prepare", repository], { env });
  expect(code).toBe(0);
  const [, id = "", path = "", branch = ""] =
    /^ID +(\S+)\nPath +(\S+)\nBranch +(\S+)\nRun in it +svc run --worktree-id \1 "/.exec(stdout) ?? [];
  return { id, path, branch };
};

const said = /^ *(?:look at it|fetch it): +(.*)$/gm;

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

  await writeFile(join(path, "later.txt"), "not pushed\n");
  const refused = await svc(["worktrees", "cleanup", path], { env });
  expect(refused.stdout).toMatch(/^left .*\n +It holds work that is not pushed[^]*1 left in place\n$/);
  expect(refused.code).toBe(1);
  const tried = await svc(["worktrees", "cleanup", id, "--force", "--dry-run"], { env });
  expect(tried).toMatchObject({ code: 0, stdout: expect.stringMatching(/^would be removed/) });
  expect(existsSync(join(path, "later.txt"))).toBe(true);
  expect((await svc(["worktrees", "cleanup", id, "--force"], { env })).code).toBe(0);
  expect(existsSync(path)).toBe(false);

  // The commands that svc prints are run as they are.
  const { stdout } = await svc(["worktrees", "show", id], { env });
  expect(stdout).toMatch(/^Status +removed$/m);
  const [look = "", fetch = ""] = [...stdout.matchAll(said)].map((match) => match[1]);
  const shell = (line: string) =>
    promisify(execFile)("sh", ["-c", line], {
      cwd: remote.work,
      env: { PATH: process.env["PATH"], HOME: service.home },
    });
  expect((await shell(look)).stdout).toContain("+not pushed");
  await shell(fetch);
  expect(await git(remote.work, "show", `salvaged-${id.slice(0, 8)}:later.txt`)).toBe("not pushed");
});

test("one whose directory was deleted is shown as failed, and a job makes it again", async () => {
  const { id, path } = await prepared((await makeRemote()).path);
  await rm(path, { recursive: true });
  const { stdout } = await svc(["worktrees", "show", id], { env });
  expect(stdout).toMatch(/^Status +failed\nError +Its directory is gone/m);
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
    [["worktrees", "show", ""], 1, /names nothing/],
    [["worktrees", "show", id.slice(0, 8)], 1, /There is no worktree/],
    [["worktrees", "prepare", ""], 2, /repo_url/],
    [["worktrees", "prepare", "ext::sh"], 2, /URL/],
    [["worktrees", "prepare", remote.path, "--base-ref", "a..b"], 2, /not a name that git takes/],
    [["worktrees", "prepare", remote.path, "--base-ref", "nosuch"], 1, /no branch or tag "nosuch"/],
    [["worktrees", "prepare", await temporaryDirectory()], 1, /no git repository/],
    [["worktrees", "cleanup", "nosuch"], 1, /There is no worktree of this service/],
    [["worktrees", "cleanup", foreign, "--force"], 1, /There is no worktree of this service/],
    [["run", "x", "--worktree-id", "nosuch"], 1, /There is no worktree nosuch/],
    [["run", "x", "--worktree-id", id, "--repo", "/elsewhere"], 2, /leave repo_url out/],
    [["run", "x", "--worktree-id", id, "--base-ref", "dev"], 2, /leave base_ref out/],
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
  expect((await svc(["disk"], there)).stdout).toMatch(/No job is accepted: less than 1\.0 PiB is free/);
  for (const args of [
    ["run", "x"],
    ["worktrees", "prepare", remote.path],
  ]) {
    const refused = await svc(args, there);
    expect(refused.stderr).toMatch(/MiB free, less than the/);
    expect(refused.code).toBe(1);
  }
});
