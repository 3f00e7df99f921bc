import { beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { savedCloneOf } from "../cached-clone.ts";
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
  host.createOwner("guild", "Organization");
  token = host.createToken({ login: "robot" });
  service = await startService({ env: hostVariables(host, token) });
});

const pullOf = (job: Job) => host.pullRequests.find(({ url }) => url === job.pr_url);

test("a job on a private repository ends with its branch pushed and a pull request that names task, job, profile, model and cost; a resumed session keeps both", async () => {
  const repository = await host.createRepository("acme", "web.app", { private: true });
  const job = await runJob(service, "Add the output file\n\nAs agreed.", { repo_url: repository.url });
  expect(job).toMatchObject({ status: "succeeded", profile: "code", error: null, salvage_ref: null });
  expect(stagesOf(job).slice(-3)).toEqual(["pushed", "pull_request", "ended"]);
  expect(await tipOf(repository, job.branch)).toBe(job.commit_sha);
  const pull = pullOf(job);
  expect(pull).toMatchObject({ title: "Add the output file", head: job.branch, base: "main", draft: false });
  for (const fact of [job.id, "| Profile | code |", `| Model | ${job.model} |`, "| Cost | $0.0123 |"])
    expect(pull?.body).toContain(fact);
  expect(pull?.body).toContain("> As agreed.");
  expect(credentialsSeen(host)).toEqual(new Set([token]));

  const second = await runJob(service, "Go on", { session_id: job.session_id });
  expect(second).toMatchObject({ status: "succeeded", branch: job.branch, pr_url: job.pr_url });
  expect(second.commit_sha).not.toBe(job.commit_sha);
  expect(await tipOf(repository, job.branch)).toBe(second.commit_sha);
  expect(host.pullRequests.filter(({ repository: name }) => name === "web.app")).toHaveLength(1);
});

test.concurrent("the pull request goes to the base_ref that was asked for, and a long first line becomes a title of one line that the host takes", async () => {
  const repository = await host.createRepository("acme", "releases");
  await git(repository.directory, "branch", "release/2.x", "main");
  const job = await runJob(service, `${"Überlegen ".repeat(40)}\nscenario: work`, {
    repo_url: repository.url,
    base_ref: "release/2.x",
  });
  expect(job).toMatchObject({ status: "succeeded", base_ref: "release/2.x" });
  const { title = "", base } = pullOf(job) ?? {};
  expect([base, Array.from(title).length, title.endsWith("…")]).toEqual(["release/2.x", 72, true]);
});

test.concurrent("a tag as base gets a pushed branch and the reason why there is no pull request", async () => {
  const repository = await host.createRepository("acme", "tagged");
  await git(repository.directory, "tag", "v1", "main");
  const job = await runJob(service, "Fix it there", { repo_url: repository.url, base_ref: "v1" });
  expect(job).toMatchObject({ status: "succeeded", pr_url: null, error: null });
  expect(job.warnings.join()).toContain('"v1" is a tag');
  expect(await branchesOf(repository)).toContain(job.branch);
});

test.concurrent("a job that changes nothing pushes nothing and opens nothing", async () => {
  const repository = await host.createRepository("acme", "untouched");
  const job = await runJob(service, "scenario: noop", { repo_url: repository.url });
  expect(job).toMatchObject({ status: "succeeded", pr_url: null, error: null });
  expect(await branchesOf(repository)).toEqual(["main"]);
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

test.concurrent("a repository that exists is left as it is, and gets a pull request with the title and the branch that were asked for", async () => {
  const repository = await host.createRepository("guild", "there", { private: true });
  const options = { title: "Compare instants", branch: "fix/dates" };
  const job = await create("guild/there", { private: false, options });
  expect(job).toMatchObject({ status: "succeeded", warnings: [] });
  expect(pullOf(job)).toMatchObject({ title: "Compare instants", head: "fix/dates" });
  expect(repository.private).toBe(true);
});

test.concurrent("an empty repository takes any base_ref: the work becomes its first branch", async () => {
  const repository = await host.createRepository("guild", "empty", { seed: null });
  const job = await runJob(service, "Begin", { repo_url: repository.url, base_ref: "develop" });
  expect(job).toMatchObject({ status: "succeeded", pr_url: null });
  expect(await branchesOf(repository)).toEqual([job.branch]);
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

/** What the salvage ref in the cached clone holds of the agent's file. */
const salvaged = async (job: Job): Promise<string> =>
  git(await savedCloneOf(job.worktree_path), "show", `${job.salvage_ref}:agent-output.txt`);

test.each([
  ["a status", 403, "Resource not accessible by integration"],
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

test("what takes no push is push_failed before the agent is started, with the reason", async () => {
  const repository = await host.createRepository("acme", "no-push");
  const expectRefused = async (words: string | RegExp) => {
    const job = await runJob(service, "Do it", { repo_url: repository.url });
    expectNoAgent(job);
    expect(job.error).toMatch(words);
  };
  {
    using _refusal = host.refuse({ what: "push", how: 403 });
    await expectRefused("GIT_HOST_TOKEN lacks the right");
  }
  const known = host.tokens.get(token);
  if (known === undefined) throw new Error("the host knows the token");
  known.access = "read";
  await expectRefused("denied to robot");
  host.tokens.delete(token);
  await expectRefused(/the server refused GIT_HOST_TOKEN.*\nWhat to do: Renew GIT_HOST_TOKEN/);
  host.tokens.set(token, { ...known, access: "write" });
  expect(await branchesOf(repository)).toEqual(["main"]);
});

test("without a token a repository that takes anonymous pushes gets the branch, and the job says why there is no pull request", async () => {
  const repository = await host.createRepository("acme", "no-token");
  const empty = await host.createRepository("acme", "empty-read-only", { seed: null });
  const anonymous = await startService({ env: hostVariables(host, null) });
  const job = await runJob(anonymous, "Do it", { repo_url: repository.directory });
  expect(job).toMatchObject({ status: "succeeded", pr_url: null });
  expect(job.warnings.join()).toContain(`not on the git host ${host.host}`);
  for (const repo_url of [repository.url, empty.url]) {
    const refused = await runJob(anonymous, "Do something else", { repo_url });
    expectNoAgent(refused);
    expect(refused.error).toContain("Set GIT_HOST and GIT_HOST_TOKEN");
  }
});

test("a host that never answers is given up after SERVICE_GIT_TIMEOUT, and the work is kept", async () => {
  const repository = await host.createRepository("acme", "silent");
  const impatient = await startService({
    env: { ...hostVariables(host, token), SERVICE_GIT_TIMEOUT: "5" },
  });
  using _refusal = host.refuse({ what: "pull_request", how: "timeout" });
  const job = await runJob(impatient, "Do it", { repo_url: repository.url });
  expect(job).toMatchObject({ status: "failed", failure_reason: "pr_failed" });
  expect(job.error).toContain("no answer within 5 s");
  expect(await tipOf(repository, job.branch)).toBe(job.commit_sha);
  expect(await salvaged(job)).toBe("Do it");
});

const creationsOfPulls = (name: string): number =>
  host.requests.filter(({ method, url }) => method === "POST" && url.endsWith(`/${name}/pulls`)).length;

test("one bad answer of the host costs no delivery, and what was made although its answer was lost is not made twice", async () => {
  const faults = [
    { what: "git_read", how: 500 },
    { what: "git_read", how: "reset" },
    { what: "push", how: "reset" },
    { what: "push", how: 503 },
    { what: "api", how: 502 },
    { what: "pull_request", how: 429, retryAfter: 1 },
    { what: "pull_request", how: 422, message: "No commits between main and the branch" },
    { what: "pull_request", how: "unheard" },
  ] as const;
  for (const [nth, fault] of faults.entries()) {
    const repository = await host.createRepository("acme", `bad-${nth}`);
    using _refusal = host.refuse({ ...fault, times: 1 });
    const job = await runJob(service, "Do it", { repo_url: repository.url });
    expect(job).toMatchObject({ status: "succeeded", error: null, warnings: [] });
    expect(host.pullRequests.filter(({ repository: name }) => name === `bad-${nth}`)).toHaveLength(1);
  }
});

test("an answer that breaks off, or is a page of another server, is asked for again", async () => {
  const repository = await host.createRepository("acme", "halves");
  using _limit = host.refuse({ what: "git_read", how: 429, times: 1 });
  using _page = host.refuse({ what: "api", how: "page", times: 1 });
  using _half = host.refuse({ what: "pull_request", how: "half", times: 1 });
  const job = await runJob(service, "Do it", { repo_url: repository.url });
  expect(job).toMatchObject({ status: "succeeded", error: null, warnings: [] });
  expect(host.pullRequests.filter(({ repository: name }) => name === "halves")).toHaveLength(1);
});

test("a pull request that is there, but not listed by the name of its owner, is looked for by the name that the host says", async () => {
  const repository = await host.createRepository("acme", "sold");
  const message = "A pull request already exists for new.acme:fix/once.";
  using _known = host.refuse({ what: "pull_request", how: 422, message, times: 1 });
  using _half = host.refuse({ what: "api", how: "half", times: 1 });
  const asked = { repo_url: repository.url, options: { branch: "fix/once" } };
  expect(await runJob(service, "Do it", asked)).toMatchObject({ status: "succeeded", warnings: [] });
  const heads = host.requests.flatMap(({ url }) => /sold\/pulls\?.*head=(.*)$/.exec(url)?.[1] ?? []);
  expect(heads).toEqual(["acme%3Afix%2Fonce", "acme%3Afix%2Fonce", "new.acme%3Afix%2Fonce"]);
});

test("a host that stays away is retryable, is not waited for beyond a minute, and svc continue --deliver delivers without an agent", async () => {
  const repository = await host.createRepository("acme", "away");
  const first = await (async () => {
    using _refusal = host.refuse({ what: "pull_request", how: 502 });
    return await runJob(service, "Add the file", { repo_url: repository.url, options: { title: "Add it" } });
  })();
  expect(first).toMatchObject({ status: "failed", failure_reason: "pr_failed", retryable: true });
  expect(first.error).toContain(`What to do: svc continue ${first.id.slice(0, 8)} --deliver.`);
  expect(creationsOfPulls("away")).toBe(3);
  const deliver = (over: Record<string, unknown> = {}) =>
    runJob(service, "Deliver", { session_id: first.session_id, options: { deliver_only: true }, ...over });
  {
    using _limit = host.refuse({ what: "pull_request", how: 429, retryAfter: 3600 });
    expect(await deliver()).toMatchObject({ status: "failed", failure_reason: "pr_failed", retryable: true });
    expect(creationsOfPulls("away")).toBe(4);
  }
  const job = await deliver();
  expect(job).toMatchObject({
    status: "succeeded",
    outcome: "changed",
    task: "Add the file",
    cost_usd: null,
  });
  expect(stagesOf(job)).not.toContain("agent_started");
  expect(pullOf(job)).toMatchObject({
    title: "Add it",
    body: expect.stringContaining("> Add the file") as string,
  });
  expect(job.summary).toBe(first.summary);
  await expect(deliver({ session_id: "" })).rejects.toThrow("options.deliver_only: needs session_id");
});

test("a base that is gone gives the default branch; where that is refused the job says how to go on", async () => {
  const repository = await host.createRepository("acme", "renamed");
  await git(repository.directory, "branch", "release", "main");
  const jobOn = async () => {
    using _refusal = host.refuse({ what: "pull_request", how: 403 });
    return await runJob(service, "Do it", { repo_url: repository.url, base_ref: "release" });
  };
  const [first, second] = [await jobOn(), await jobOn()];
  await git(repository.directory, "branch", "-D", "release");
  const options = { deliver_only: true };
  const moved = await runJob(service, "-", { session_id: first.session_id, options });
  expect(moved).toMatchObject({ status: "succeeded", error: null });
  expect(moved.warnings.join()).toContain(
    '"release" is no longer at the remote: the pull request goes to main',
  );
  expect(pullOf(moved)?.base).toBe("main");
  {
    using _refusal = host.refuse({ what: "pull_request", how: 422, message: "Not here" });
    const refused = await runJob(service, "-", { session_id: second.session_id, options });
    expect(refused).toMatchObject({ status: "failed", failure_reason: "pr_failed" });
    expect(refused.error).toMatch(/Not here[^]*svc continue [0-9a-f]{8} --base BRANCH --deliver/);
  }
  await git(repository.directory, "branch", "next", "main");
  const named = await runJob(service, "-", { session_id: second.session_id, base_ref: "next", options });
  expect(named).toMatchObject({ status: "succeeded", base_ref: "next", warnings: [] });
  expect(pullOf(named)?.base).toBe("next");
});

test("an open pull request keeps its base, and a job that asks for another one says so", async () => {
  const repository = await host.createRepository("acme", "based");
  await git(repository.directory, "branch", "next", "main");
  const first = await runJob(service, "Do it", { repo_url: repository.url });
  const second = await runJob(service, "Go on", { session_id: first.session_id, base_ref: "next" });
  expect(second).toMatchObject({ status: "succeeded", base_ref: "next", pr_url: first.pr_url });
  expect(second.warnings).toEqual([
    `The open pull request goes to main, not to next: change its base there (${first.pr_url}).`,
  ]);
});

test("an agent that starts over on the base, into which its branch was merged, has changed nothing", async () => {
  const repository = await host.createRepository("acme", "over");
  const job = await runJob(service, "Do it", { repo_url: repository.url });
  await git(repository.directory, "update-ref", "refs/heads/main", `${job.commit_sha}`);
  await git(repository.directory, "update-ref", "-d", `refs/heads/${job.branch}`);
  Object.assign(pullOf(job) ?? {}, { state: "MERGED" });
  const task = "scenario: noop";
  const next = await runJob(service, task, { session_id: job.session_id });
  expect(next).toMatchObject({ status: "succeeded", outcome: "no_change", error: null, pr_url: null });
  expect(await branchesOf(repository)).toEqual(["main"]);
});

test("a pull request that was merged, and its branch deleted, is followed by another one", async () => {
  const repository = await host.createRepository("acme", "merged");
  const first = await runJob(service, "Do it", { repo_url: repository.url });
  await git(repository.directory, "update-ref", "refs/heads/main", `${first.commit_sha}`);
  await git(repository.directory, "update-ref", "-d", `refs/heads/${first.branch}`);
  Object.assign(pullOf(first) ?? {}, { state: "MERGED" });
  const next = await runJob(service, "Go on", { session_id: first.session_id });
  expect(next).toMatchObject({ status: "succeeded", branch: first.branch });
  expect([pullOf(next)?.number, pullOf(next)?.state]).toEqual([2, "OPEN"]);
});
