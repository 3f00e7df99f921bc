import { beforeAll, expect, test } from "vitest";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { startService, type Service } from "../service.ts";
import { runJob } from "./ended-job.ts";
import { branchesOf, hostVariables, startHost } from "./hosted.ts";

let host: FakeGitHost;
let service: Service;

beforeAll(async () => {
  host = await startHost();
  host.createOwner("guild", "Organization");
  service = await startService({ env: hostVariables(host, host.createToken({ login: "robot" })) });
});

const create = (name: string, over: Record<string, unknown> = {}) =>
  runJob(service, "Begin", { repo_url: `${host.origin}/${name}.git`, create_repo: true, ...over });

test.concurrent.each([
  ["under an organisation, private by default", "guild/new.app.js", {}, true],
  ["under the token's own user, public when asked", "robot/own", { private: false }, false],
])("a missing repository is made %s, and the work is its first branch", async (_, name, over, isPrivate) => {
  const job = await create(name, over);
  const repository = host.repositories.get(name);
  expect(repository?.private).toBe(isPrivate);
  expect(job).toMatchObject({ status: "succeeded", pr_url: null });
  expect(job.warnings.join()).toContain(
    `The ${isPrivate ? "private" : "public"} repository ${name} was made`,
  );
  expect(job.warnings.join()).toContain("nothing to open a pull request against");
  expect(repository && (await branchesOf(repository))).toEqual([job.branch]);
});

test.concurrent("a repository that exists is left as it is, and gets its pull request", async () => {
  const repository = await host.createRepository("guild", "there", { private: true });
  const job = await create("guild/there", { private: false });
  expect(job).toMatchObject({ status: "succeeded", warnings: [] });
  expect(job.pr_url).toContain("/guild/there/pull/1");
  expect(repository.private).toBe(true);
});

test.concurrent("an empty repository takes any base_ref: the work becomes its first branch", async () => {
  const repository = await host.createRepository("guild", "empty", { seed: null });
  const job = await runJob(service, "Begin", { repo_url: repository.url, base_ref: "develop" });
  expect(job).toMatchObject({ status: "succeeded", pr_url: null });
  expect(await branchesOf(repository)).toEqual([job.branch]);
});

test.concurrent("a base branch that is missing in a repository with commits fails and names what there is", async () => {
  const repository = await host.createRepository("guild", "no-such-base");
  const job = await runJob(service, "Begin", { repo_url: repository.url, base_ref: "develop" });
  expect(job).toMatchObject({ status: "failed", failure_reason: "worktree_failed" });
  expect(job.error).toContain('no branch or tag "develop". It has: main.');
});

test.concurrent("an owner whom the token does not reach is refused with the way out", async () => {
  host.createOwner("somebody", "User");
  const job = await create("somebody/theirs");
  expect(job).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
  expect(job.error).toContain("the token belongs to robot");
  expect(host.repositories.has("somebody/theirs")).toBe(false);
});

const creations = (name: string) =>
  host.requests.filter(({ url, body }) => url.endsWith("/repos") && body.includes(`"${name}"`));

test("a host that breaks off or does not know the token is not taken for a missing repository", async () => {
  for (const how of ["reset", 401, 500] as const) {
    using _refusal = host.refuse({ what: "git_read", how });
    const job = await create(`guild/not-missing-${how}`);
    expect(job).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
    expect(job.error).not.toContain("does not exist");
    expect(creations(`not-missing-${how}`)).toEqual([]);
  }
});

test("a repository that another client creates between the check and the creation is used", async () => {
  await host.createRepository("guild", "raced", { private: true });
  // The check gets the answer from before the creation.
  using _refusal = host.refuse({ what: "git_read", how: 404, message: "Repository not found.", times: 1 });
  const job = await create("guild/raced", { base_ref: "main" });
  expect(creations("raced")).toHaveLength(1);
  expect(job).toMatchObject({ status: "succeeded", warnings: [] });
  expect(job.pr_url).toContain("/guild/raced/pull/1");
});
