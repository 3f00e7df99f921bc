import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { svc } from "../cli/run-svc.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

/** Repositories that are not what the task needs: the job fails, or goes on with a warning, in words that name the thing. */
let service: Service;

beforeAll(async () => {
  service = await startService();
});

const run = async (repo_url: string, over: Record<string, unknown> = {}): Promise<Job> =>
  (await service.client.run_task({ task: "Do the default thing", repo_url, wait: true, ...over })).job;

test("a remote that cannot be reached fails the job as worth trying again", async () => {
  const job = await run("https://127.0.0.1:1/acme/app.git");
  expect(job).toMatchObject({
    status: "failed",
    failure_reason: "clone_failed",
    retryable: true,
    exit_code: null,
  });
  expect(job.error).toMatch(
    /^Could not fetch https:\/\/127\.0\.0\.1:1\/acme\/app\.git: the server cannot be reached/,
  );
  expect(job.error).toMatch(/Check the URL and the network/);
});

test("a path without a repository is refused before a job is queued, whether there is nothing or something else", async () => {
  const other = await temporaryDirectory();
  await writeFile(join(other, "file"), "");
  const before = (await service.client.list_jobs()).count;
  for (const path of [join(other, "missing.git"), other, join(other, "file"), `file://${other}`]) {
    await expect(run(path)).rejects.toMatchObject({
      status: 400,
      code: "invalid_repo_url",
      message: `There is no git repository at ${path}; give the path of one, or an https or ssh URL`,
    });
  }
  expect((await service.client.list_jobs()).count).toBe(before);
});

test("a shallow repository is refused before a job is queued, with the command that completes it", async () => {
  const { path, work } = await makeRemote();
  await git(work, "commit", "--quiet", "--allow-empty", "--message=More");
  await git(work, "push", "--quiet", path, "main");
  const shallow = join(await temporaryDirectory(), "checkout");
  await git(work, "clone", "--quiet", "--depth=1", `file://${path}`, shallow);
  await expect(run(shallow)).rejects.toMatchObject({
    status: 400,
    code: "invalid_repo_url",
    message: `The repository ${shallow} is shallow: it has only a part of its history. Run in it: git fetch --unshallow`,
  });
  await git(shallow, "fetch", "--quiet", "--unshallow");
  expect(await run(shallow, { profile: "review" })).toMatchObject({ status: "succeeded" });
});

test("a path is a repository with or without .git, and as a checkout", async () => {
  const { path, work } = await makeRemote();
  for (const place of [path.replace(/\.git$/, ""), work, `file://${work}`])
    expect(await run(place, { profile: "review" })).toMatchObject({ status: "succeeded" });
});

test("a base branch that is missing fails the job and names those that there are", async () => {
  const remote = await makeRemote();
  const job = await run(remote.path, { base_ref: "develop" });
  expect(job).toMatchObject({ status: "failed", failure_reason: "worktree_failed", retryable: false });
  expect(job.error).toMatch(
    /has no branch or tag "develop"\. It has: main\.\nWhat to do: Name one of them as the base/,
  );
});

test("an empty repository gets its first commit on the job's branch", async () => {
  const path = join(await temporaryDirectory(), "empty.git");
  await promisify(execFile)("git", ["init", "--quiet", "--bare", "--initial-branch=main", path]);
  const job = await run(path);
  expect(job).toMatchObject({ status: "succeeded", failure_reason: null });
  expect(await git(path, "rev-list", "--count", String(job.branch))).toBe("1");
  expect(await git(path, "rev-parse", String(job.branch))).toBe(job.commit_sha);
});

test("submodules and files in LFS become warnings, and the job continues", async () => {
  const remote = await makeRemote();
  const { work } = remote;
  await mkdir(join(work, "assets"));
  await writeFile(join(work, ".gitattributes"), "*.bin filter=lfs diff=lfs merge=lfs -text\n");
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"0".repeat(64)}\nsize 12345\n`;
  await writeFile(join(work, "assets", "big.bin"), pointer);
  await writeFile(
    join(work, ".gitmodules"),
    '[submodule "vendor/lib"]\n\tpath = vendor/lib\n\turl = https://127.0.0.1:1/lib.git\n',
  );
  await git(work, "add", "--all");
  await git(work, "update-index", "--add", "--cacheinfo", `160000,${"1".repeat(40)},vendor/lib`);
  await git(work, "commit", "--quiet", "--message=Add them");
  await git(work, "push", "--quiet", remote.path, "main");
  const job = await run(remote.path);
  expect(job).toMatchObject({ status: "succeeded", failure_reason: null });
  expect(job.warnings).toEqual([
    expect.stringMatching(/^Submodules are not checked out: vendor\/lib\. /),
    expect.stringMatching(/^Files kept in Git LFS are not downloaded/),
    expect.stringContaining("no pull request was opened"),
  ]);
  // Neither the pointer nor the submodule is changed by the job's commit.
  expect(await remote.show(`${job.branch}:assets/big.bin`)).toBe(pointer.trimEnd());
  expect(await git(remote.path, "diff", "--name-only", "main", String(job.branch))).toBe("agent-output.txt");
});

test("a profile file that does not parse is listed with its error and refused, until it is mended", async () => {
  const directory = join(service.home, ".service", "profiles");
  const file = join(directory, "mine.yml");
  const errorOfMine = async () =>
    (await service.client.list_profiles()).profiles.find(({ name }) => name === "mine")?.error;
  await mkdir(directory, { recursive: true });
  await writeFile(file, "claude: {model: [sonnet\n");
  expect(await until(errorOfMine)).toContain(file);
  await expect(run("", { profile: "mine" })).rejects.toMatchObject({
    status: 400,
    code: "invalid_profile",
    message: expect.stringMatching(
      /^Profile mine cannot be used: .*mine\.yml.*is not valid YAML at line \d+/,
    ) as unknown,
  });
  const { code, stdout } = await svc(["profiles"], { env: { SERVICE_PORT: new URL(service.url).port } });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^mine\n +error +.*is not valid YAML/m);
  expect(await run("")).toMatchObject({ status: "succeeded", profile: "code" });
  await writeFile(file, "extends: code\nauto_pr: false\n");
  await until(async () => (await errorOfMine()) === null);
  expect(await run("", { profile: "mine" })).toMatchObject({ status: "succeeded", profile: "mine" });
});
