import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { findExecutable } from "../../src/lib/process/executable.ts";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { cachedCloneOf } from "../cached-clone.ts";
import { git } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { runJob, stagesOf } from "./ended-job.ts";
import { branchesOf, hostVariables, startHost, tipOf } from "./hosted.ts";

let host: FakeGitHost;
let service: Service;

beforeAll(async () => {
  host = await startHost();
  service = await startService({ env: hostVariables(host, host.createToken()) });
});

/** What the salvage ref in the cached clone holds of the agent's file. */
const salvaged = async (job: Job): Promise<string> =>
  git(await cachedCloneOf(job.worktree_path), "show", `${job.salvage_ref}:agent-output.txt`);

test.each([
  ["a status 403", 403, "Resource not accessible by integration"],
  ["a status 502", 502, "502"],
  ["a connection that is cut", "reset", "EOF"],
] as const)(
  "a pull request refused by %s is pr_failed; the branch stays pushed and the work is salvaged",
  async (_, how, words) => {
    const repository = await host.createRepository("acme", `pull-${how}`);
    using _refusal = host.refuse({ what: "pull_request", how });
    const job = await runJob(service, "Do it", { repo_url: repository.url });
    expect(job).toMatchObject({ status: "failed", failure_reason: "pr_failed", pr_url: null });
    expect(job.error).toContain(words);
    expect(stagesOf(job)).toContain("pushed");
    expect(await tipOf(repository, job.branch)).toBe(job.commit_sha);
    expect(await salvaged(job)).toBe("Do it");
  },
);

test("a push refused by a hook is push_failed and the work is salvaged", async () => {
  const repository = await host.createRepository("acme", "push-hook");
  using _refusal = host.refuse({ what: "push", how: "hook" });
  const job = await runJob(service, "Do it", { repo_url: repository.url });
  expect(job).toMatchObject({ status: "failed", failure_reason: "push_failed", retryable: false });
  expect(job.error).toContain("Protected branch");
  expect(await branchesOf(repository)).toEqual(["main"]);
  expect(await salvaged(job)).toBe("Do it");
});

/** Refused before anything was paid for. */
const expectNoAgent = (job: Job): void => {
  expect(job).toMatchObject({ status: "failed", failure_reason: "push_failed", cost_usd: null, pid: null });
  expect(stagesOf(job)).not.toContain("agent_started");
};

test("a push refused with status 403 is push_failed before the agent is started", async () => {
  const repository = await host.createRepository("acme", "push-403");
  using _refusal = host.refuse({ what: "push", how: 403 });
  const job = await runJob(service, "Do it", { repo_url: repository.url });
  expectNoAgent(job);
  expect(job.error).toContain("GIT_HOST_TOKEN lacks the right");
  expect(await branchesOf(repository)).toEqual(["main"]);
});

test.concurrent("a token that may only read clones, and its push is push_failed with the host's own words", async () => {
  const repository = await host.createRepository("acme", "read-only", { private: true });
  const reader = await startService({
    env: hostVariables(host, host.createToken({ access: "read", login: "reader" })),
  });
  const job = await runJob(reader, "Do it", { repo_url: repository.url });
  expectNoAgent(job);
  expect(job.error).toContain("denied to reader");
});

test.concurrent("a token that the host refuses is named, before the agent is started", async () => {
  const repository = await host.createRepository("acme", "bad-token");
  const mistaken = await startService({ env: hostVariables(host, "ghp_wrong0000000000000") });
  const job = await runJob(mistaken, "Do it", { repo_url: repository.url });
  expectNoAgent(job);
  expect(job.error).toMatch(/the server refused GIT_HOST_TOKEN.*\nWhat to do: Renew GIT_HOST_TOKEN/);
});

test.concurrent("an empty repository that takes no push is refused before the agent is started", async () => {
  const repository = await host.createRepository("acme", "empty-read-only", { seed: null });
  const anonymous = await startService({ env: hostVariables(host, null) });
  expectNoAgent(await runJob(anonymous, "Do it", { repo_url: repository.url }));
  const good = await runJob(service, "Do it", { repo_url: repository.url });
  expect(good).toMatchObject({ status: "succeeded" });
});

test.concurrent("a host that never answers is given up after SERVICE_GIT_TIMEOUT, and the work is kept", async () => {
  const repository = await host.createRepository("acme", "silent");
  const impatient = await startService({
    env: { ...hostVariables(host, host.createToken()), SERVICE_GIT_TIMEOUT: "5" },
  });
  using _refusal = host.refuse({ what: "pull_request", how: "timeout" });
  const job = await runJob(impatient, "Do it", { repo_url: repository.url });
  expect(job).toMatchObject({ status: "failed", failure_reason: "pr_failed" });
  expect(job.error).toContain("no answer within 5 s");
  expect(await tipOf(repository, job.branch)).toBe(job.commit_sha);
  expect(await salvaged(job)).toBe("Do it");
});

/** A PATH with all that the service and its agent need, but no gh. */
const pathWithoutGh = async (): Promise<string> => {
  const bin = join(await temporaryDirectory(), "bin");
  await mkdir(bin);
  for (const name of ["git", "node", "sh"]) {
    const found = await findExecutable(name, process.env["PATH"] ?? "");
    if (found.ok) await symlink(found.path, join(bin, name));
  }
  return bin;
};

test.concurrent("without gh the branch is pushed, the job succeeds and says why there is no pull request", async () => {
  const repository = await host.createRepository("acme", "no-gh");
  const bare = await startService({
    env: { ...hostVariables(host, host.createToken()), PATH: await pathWithoutGh() },
  });
  const job = await runJob(bare, "Do it", { repo_url: repository.url });
  expect(job).toMatchObject({ status: "succeeded", pr_url: null, failure_reason: null });
  expect(job.warnings.join()).toContain("gh is not installed");
  expect(await tipOf(repository, job.branch)).toBe(job.commit_sha);
});

test.concurrent("without a token a repository that takes anonymous pushes gets the branch, and the job says why there is no pull request", async () => {
  const repository = await host.createRepository("acme", "no-token");
  const anonymous = await startService({ env: hostVariables(host, null) });
  const job = await runJob(anonymous, "Do it", { repo_url: repository.directory });
  expect(job).toMatchObject({ status: "succeeded", pr_url: null });
  expect(job.warnings.join()).toContain(`not on the git host ${host.host}`);
  const refused = await runJob(anonymous, "Do something else", { repo_url: repository.url });
  expectNoAgent(refused);
  expect(refused.error).toContain("Set GIT_HOST and GIT_HOST_TOKEN");
});
