import { beforeAll, expect, test } from "vitest";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { git } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { runJob, stagesOf } from "./ended-job.ts";
import { branchesOf, credentialsSeen, hostVariables, startHost, tipOf } from "./hosted.ts";

let host: FakeGitHost;
let token: string;
let service: Service;

beforeAll(async () => {
  host = await startHost();
  token = host.createToken();
  service = await startService({ env: hostVariables(host, token) });
});

test.concurrent("a job on a private repository ends with its branch pushed and a pull request that names task, job, profile, model and cost", async () => {
  const repository = await host.createRepository("acme", "web.app", { private: true });
  const job = await runJob(service, "Add the output file\n\nAs agreed.", { repo_url: repository.url });
  expect(job).toMatchObject({ status: "succeeded", profile: "code", error: null, salvage_ref: null });
  expect(stagesOf(job).slice(-3)).toEqual(["pushed", "pull_request", "ended"]);
  expect(await tipOf(repository, job.branch)).toBe(job.commit_sha);
  const pull = host.pullRequests.find(({ url }) => url === job.pr_url);
  expect(pull).toMatchObject({ title: "Add the output file", head: job.branch, base: "main", draft: false });
  for (const fact of [job.id, "| Profile | code |", `| Model | ${job.model} |`, "| Cost | $0.0123 |"])
    expect(pull?.body).toContain(fact);
  expect(pull?.body).toContain("> As agreed.");
  expect(credentialsSeen(host)).toEqual(new Set([token]));
});

test.concurrent("the pull request goes to the base_ref that was asked for, also when it is not the default branch", async () => {
  const repository = await host.createRepository("acme", "releases");
  await git(repository.directory, "branch", "release/2.x", "main");
  const job = await runJob(service, "Fix it there", { repo_url: repository.url, base_ref: "release/2.x" });
  expect(job).toMatchObject({ status: "succeeded", base_ref: "release/2.x" });
  expect(host.pullRequests.find(({ url }) => url === job.pr_url)).toMatchObject({ base: "release/2.x" });
});

test.concurrent("the pull request has the title and the branch that were asked for", async () => {
  const repository = await host.createRepository("acme", "titled");
  const options = { title: "Compare instants", branch: "fix/dates" };
  const job = await runJob(service, "Fix it there", { repo_url: repository.url, options });
  const pull = host.pullRequests.find(({ url }) => url === job.pr_url);
  expect(pull).toMatchObject({ title: "Compare instants", head: "fix/dates" });
});

test.concurrent("a tag as base gets a pushed branch and the reason why there is no pull request", async () => {
  const repository = await host.createRepository("acme", "tagged");
  await git(repository.directory, "tag", "v1", "main");
  const job = await runJob(service, "Fix it there", { repo_url: repository.url, base_ref: "v1" });
  expect(job).toMatchObject({ status: "succeeded", pr_url: null, error: null });
  expect(job.warnings.join()).toContain('"v1" is a tag');
  expect(await branchesOf(repository)).toContain(job.branch);
});

test.concurrent("a resumed session pushes to the same branch and keeps the pull request that is open", async () => {
  const repository = await host.createRepository("acme", "resumed");
  const first = await runJob(service, "Begin", { repo_url: repository.url });
  const second = await runJob(service, "Go on", { session_id: first.session_id });
  expect(second).toMatchObject({ status: "succeeded", branch: first.branch, pr_url: first.pr_url });
  expect(second.commit_sha).not.toBe(first.commit_sha);
  expect(await tipOf(repository, first.branch)).toBe(second.commit_sha);
  expect(host.pullRequests.filter(({ repository: name }) => name === "resumed")).toHaveLength(1);
});

test.concurrent("a job that changes nothing pushes nothing and opens nothing", async () => {
  const repository = await host.createRepository("acme", "untouched");
  const job = await runJob(service, "scenario: noop", { repo_url: repository.url });
  expect(job).toMatchObject({ status: "succeeded", pr_url: null, error: null });
  expect(await branchesOf(repository)).toEqual(["main"]);
});

test.concurrent("a long first line of many characters becomes a title of one line that the host takes", async () => {
  const repository = await host.createRepository("acme", "titles");
  const job = await runJob(service, `${"Überlegen ".repeat(40)}\nscenario: work`, {
    repo_url: repository.url,
  });
  const title = host.pullRequests.find(({ url }) => url === job.pr_url)?.title ?? "";
  expect(Array.from(title)).toHaveLength(72);
  expect(title.endsWith("…")).toBe(true);
});
