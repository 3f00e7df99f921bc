import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { svc } from "../cli/run-svc.ts";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { git } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runJob } from "./ended-job.ts";
import { branchesOf, hostVariables, startHost, tipOf } from "./hosted.ts";

/* Jobs with several repositories, as who submits sees them. */

let host: FakeGitHost;
let service: Service;

const start = (env: Record<string, string> = {}) =>
  startService({
    env: {
      ...env,
      ...hostVariables(host, host.createToken({ login: "robot" })),
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "several-agent"),
      SERVICE_AGENT_SANDBOX_READ: join(import.meta.dirname, "../fake-agent"),
      ANTHROPIC_API_KEY: "sk-canary",
    },
  });

beforeAll(async () => {
  host = await startHost();
  service = await start();
});

const pullOf = (url: string | null | undefined) => host.pullRequests.find((pull) => pull.url === url);
const further = (...urls: string[]) => ({ repositories: urls.map((repo_url) => ({ repo_url })) });
const shown = async (...args: string[]): Promise<string> =>
  (await svc(args, { env: { SERVICE_PORT: new URL(service.url).port } })).stdout;
const onlyOf = ({ repositories: [only] }: Job) => {
  if (only === undefined) throw new Error("the job has no further repository");
  return only;
};
const pathsOf = ({ worktree_path, repositories }: Job): string[] => [
  worktree_path ?? "",
  ...repositories.map(({ path }) => path ?? ""),
];

test("two repositories get a branch and a pull request each, which name each other; a continued job keeps both", async () => {
  const app = await host.createRepository("acme", "app", { private: true });
  const lib = await host.createRepository("acme", "lib", { private: true });
  await git(lib.directory, "branch", "release-2", "main");
  const flags = ["--repo", app.url, "--also", `${lib.url}@release-2`, "--wait"];
  const id = (await shown("run", "Change both", ...flags)).slice(0, 36);
  const { job } = await service.client.get_job({ job_id: id.slice(0, 8) });
  expect([job.error, job.warnings]).toEqual([null, []]);
  expect(job).toMatchObject({ status: "succeeded", outcome: "changed", diff_stat: { files: 2 } });
  const other = onlyOf(job);
  expect(other).toMatchObject({ repo_url: lib.url, base_ref: "release-2", branch: job.branch, error: null });
  expect([await tipOf(app, job.branch), await tipOf(lib, job.branch)]).toEqual([
    job.commit_sha,
    other.commit_sha,
  ]);
  expect(pullOf(other.pr_url)).toMatchObject({ base: "release-2", head: job.branch });
  expect(pullOf(job.pr_url)?.body).toContain(other.pr_url);
  expect(pullOf(other.pr_url)?.body).toContain(job.pr_url);
  expect(await shown("job", job.id)).toContain(`acme/lib ${other.pr_url}`);
  const [both, app1, lib1] = await Promise.all([
    shown("diff", job.id),
    shown("diff", job.id, "--repository", "acme/app"),
    shown("diff", job.id, "--repository", lib.url),
  ]);
  expect(both).toBe(app1 + lib1);
  expect([app1, lib1].map((text) => text.match(/^diff --git/gm)?.length)).toEqual([1, 1]);
  const env = { SERVICE_PORT: new URL(service.url).port };
  const none = await svc(["diff", job.id, "--repository", "acme/none"], { env });
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining("further repositories are: lib")]);
  // In a checkout of the further repository, its branch.
  const clone = join(await temporaryDirectory(), "lib");
  await git(lib.directory, "clone", "--quiet", lib.directory, clone);
  await git(clone, "remote", "set-url", "origin", lib.url);
  const login = Buffer.from(`robot:${host.createToken({ login: "robot" })}`).toString("base64");
  const own = {
    ...host.environment,
    HOME: await temporaryDirectory(),
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "http.extraHeader",
    GIT_CONFIG_VALUE_0: `Authorization: Basic ${login}`,
  };
  const { code, stderr } = await svc(["checkout", job.id], { env: { ...env, ...own }, cwd: clone });
  expect([code, stderr]).toEqual([0, ""]);
  expect(await git(clone, "rev-parse", "HEAD")).toBe(other.commit_sha);

  const second = await runJob(service, "Go on", { session_id: job.session_id });
  expect(second).toMatchObject({ status: "succeeded", branch: job.branch, pr_url: job.pr_url });
  expect(onlyOf(second)).toMatchObject({ path: other.path, pr_url: other.pr_url, error: null });
  expect(await tipOf(lib, job.branch)).toBe(onlyOf(second).commit_sha);
  expect(onlyOf(second).commit_sha).not.toBe(other.commit_sha);
  expect(pullOf(job.pr_url)?.body.split(String(other.pr_url))).toHaveLength(2);
  // Each repository's change can be read, of the continued job too.
  for (const repository of ["lib", lib.url]) {
    const change = await service.client.get_diff({ job_id: second.id, repository });
    expect(change).toMatchObject({ source: "branch", files: [{ path: "also.txt", status: "added" }] });
  }
  expect(await shown("diff", second.id, "--repository", "lib", "--name-only")).toBe("also.txt\n");
  await expect(service.client.get_diff({ job_id: second.id, repository: "none" })).rejects.toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("lib") as string,
  });
});

test("the worktree of a further repository is in use with the main one, and a cleanup removes each", async () => {
  const app = await host.createRepository("acme", "tidy");
  const lib = await host.createRepository("acme", "tidy-lib");
  const second = await runJob(service, "Change both", { repo_url: app.url, ...further(lib.url) });
  const { worktrees } = await service.client.list_worktrees({});
  const known = worktrees.filter(({ path }) => pathsOf(second).includes(path));
  expect(known).toMatchObject([{ status: "ready" }, { status: "ready" }]);
  expect(new Set(known.map(({ job_id }) => job_id))).toEqual(new Set([second.id]));
  const { results } = await service.client.cleanup_worktrees({ paths: pathsOf(second).toReversed().join() });
  expect(results).toMatchObject([{ error: null }, { error: null }]);
  expect(pathsOf(second).map((path) => existsSync(path))).toEqual([false, false]);
});

test("where one is not delivered, the job fails, and the others have their branch and pull request", async () => {
  const app = await host.createRepository("acme", "main-one");
  const [closed, open] = [
    await host.createRepository("acme", "closed"),
    await host.createRepository("acme", "open"),
  ];
  const hook = join(closed.directory, "hooks", "pre-receive");
  await writeFile(hook, "#!/bin/sh\necho 'no pushes on fridays'\nexit 1\n", { mode: 0o755 });
  // What was added although its answer was lost is not added twice.
  using _half = host.refuse({ what: "change", how: "half", times: 1 });
  using _limit = host.refuse({ what: "change", how: 429, times: 1 });
  const job = await runJob(service, "Change all", { repo_url: app.url, ...further(closed.url, open.url) });
  expect(job).toMatchObject({ status: "failed", failure_reason: "push_failed", outcome: "changed" });
  expect(job.error).toContain("no pushes on fridays");
  const [first, second] = job.repositories;
  expect(first).toMatchObject({ pr_url: null, error: expect.stringContaining("no pushes on fridays") });
  expect(job.warnings.join()).toContain(`The work on ${closed.url} that was not pushed is saved as`);
  expect(second).toMatchObject({ error: null, pr_url: expect.stringContaining("/open/pull/") });
  expect(await branchesOf(closed)).toEqual(["main"]);
  expect([await tipOf(app, job.branch), await tipOf(open, job.branch)]).toEqual([
    job.commit_sha,
    second?.commit_sha,
  ]);
  expect(pullOf(job.pr_url)?.body.split(String(second?.pr_url))).toHaveLength(2);
});

test("what only a further repository has is delivered later as a change, with advice and warnings that are its own", async () => {
  const app = await host.createRepository("acme", "still");
  const lib = await host.createRepository("acme", "moving");
  await git(lib.directory, "branch", "release", "main");
  const repositories = [{ repo_url: lib.url, base_ref: "release" }];
  const refused = async (how: 403 | 422, asked: Record<string, unknown>, task: string) => {
    using _refusal = host.refuse({ what: "pull_request", how, message: "Not here" });
    return await runJob(service, task, asked);
  };
  const first = await refused(403, { repo_url: app.url, repositories }, "scenario: noop {}");
  expect(first).toMatchObject({ status: "failed", outcome: "changed" });
  await git(lib.directory, "branch", "-D", "release");
  const deliver = { session_id: first.session_id, options: { deliver_only: true } };
  const second = await refused(422, deliver, "-");
  expect(second.error).toMatch(/What to do: Make it again: svc continue [0-9a-f]{8} --deliver/);
  const third = await runJob(service, "-", deliver);
  expect(third).toMatchObject({ status: "succeeded", outcome: "changed" });
  expect(onlyOf(third)).toMatchObject({ cached_clone: null, error: null });
  expect(third.warnings).toEqual([expect.stringMatching(/^moving: The base "release" is no longer/)]);
  expect(pullOf(onlyOf(third).pr_url)?.base).toBe("main");
});

test("repositories of one name lie apart; the git directory of one that is put in the place of another's is not followed", async () => {
  const app = await host.createRepository("acme", "same", { seed: { mischief: "" } });
  const other = await host.createRepository("guild", "same");
  const job = await runJob(service, "Do harm", { repo_url: app.url, ...further(other.url) });
  expect(job).toMatchObject({ status: "failed", failure_reason: "push_failed" });
  const [entry] = job.repositories;
  expect(entry?.path?.endsWith("-same-2")).toBe(true);
  const tip = await tipOf(app, job.branch);
  expect(await git(app.directory, "log", "--format=%an", "--name-only", tip)).not.toContain("also.txt");
  expect(entry).toMatchObject({ error: expect.any(String), pr_url: null });
  expect(await branchesOf(other)).toEqual(["main"]);
});

test.each([
  ["twice", ["https://localhost/acme/lib", "https://localhost/acme/lib.git"], "is named twice"],
  ["the task's own", ["https://localhost/acme/app.git"], "is named twice"],
  ["with a helper", ["ext::sh -c id"], "white space"],
  ["with credentials", ["https://a:b@localhost/acme/lib"], "carries credentials"],
  ["nine", Array.from({ length: 9 }, (_, at) => `https://localhost/acme/lib${at}`), "8"],
])("further repositories that are named %s are refused", async (_, urls, why) => {
  const asked = service.client.run_task({
    task: "x",
    repo_url: "https://localhost/acme/app",
    ...further(...urls),
  });
  await expect(asked).rejects.toThrow(why);
});

test("an agent that may only read sees them, and nothing of it stays", async () => {
  const app = await host.createRepository("acme", "read");
  const lib = await host.createRepository("acme", "read-lib");
  const job = await runJob(service, "Look", { repo_url: app.url, profile: "review", ...further(lib.url) });
  expect(job).toMatchObject({ status: "succeeded", repositories: [{ pr_url: null, error: null }] });
  expect(pathsOf(job).map((path) => existsSync(path))).toEqual([false, false]);
  expect(await branchesOf(lib)).toEqual(["main"]);
});

test("work of a cancelled job is saved in each repository, and then both worktrees are removed", async () => {
  const { client, url } = await start({ SERVICE_WORKTREE_TTL: "0" });
  const app = await host.createRepository("acme", "stopped");
  const lib = await host.createRepository("acme", "stopped-lib");
  const asked = { task: "scenario: hang", repo_url: app.url, ...further(lib.url) };
  const { id } = (await client.run_task(asked)).job;
  const now = async () => (await client.get_job({ job_id: id })).job;
  const begun = await until(async () => {
    const job = await now();
    return existsSync(join(job.repositories[0]?.path ?? "/nowhere", "also.txt")) ? job : null;
  });
  await client.cancel_job({ job_id: id });
  await until(() => pathsOf(begun).every((path) => !existsSync(path)));
  const saved = (await now()).warnings.find((text) => text.startsWith(`The work on ${lib.url}`));
  const [, ref = "", clone = ""] = /saved as (\S+) in (\S+)$/.exec(saved ?? "") ?? [];
  expect(await git(clone, "ls-tree", "--name-only", ref)).toContain("also.txt");
  const change = await client.get_diff({ job_id: id, repository: lib.url });
  expect(change).toMatchObject({ source: "salvage", files: [{ path: "also.txt" }] });
  // One that cannot be had any more hides no other.
  const env = { SERVICE_PORT: new URL(url).port };
  const both = await svc(["diff", id], { env });
  await rm(clone, { recursive: true });
  const one = await svc(["diff", id], { env });
  expect([both.code, both.stderr, one.code]).toEqual([0, "", 1]);
  expect(one.stdout).toBe((await svc(["diff", id, "--repository", "stopped"], { env })).stdout);
  expect(both.stdout).toContain("b/also.txt");
  expect(one.stdout).not.toContain("b/also.txt");
  expect(one.stderr).toContain("stopped-lib");
});
