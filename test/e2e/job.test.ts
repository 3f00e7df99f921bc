import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { JobEvent } from "../../src/contract/event.ts";
import { asks } from "../asks.ts";
import { afterFile } from "../cleanup.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { until } from "../until.ts";

let service: Service;

beforeAll(async () => {
  service = await startService();
});

const submit = (task: string, over: Record<string, unknown> = {}) => asks(service).submit({ task, ...over });

const ended = (id: string) => asks(service).ended(id);

test("a task ends with its branch pushed to the remote, a commit that is the agent's, and every stage with its time; its events can be followed live and resumed", async () => {
  const remote = await makeRemote();
  const queued = await submit("Do the default thing", { repo_url: remote.path });
  expect(queued).toMatchObject({
    status: "queued",
    mode: "fire_and_forget",
    base_ref: "main",
    profile: "code",
  });
  const follow = async (after = 0): Promise<JobEvent[]> => {
    const events: JobEvent[] = [];
    const signal = AbortSignal.timeout(100_000);
    for await (const event of service.client.events(queued.id, { after, signal })) events.push(event);
    return events;
  };
  const seen = await follow();
  expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_, at) => at + 1));
  expect(seen[0]).toMatchObject({ type: "stage", stage: "queued" });
  expect(seen.at(-1)).toMatchObject({ type: "stage", stage: "ended", detail: "succeeded" });
  expect(await follow(3)).toEqual(seen.slice(3));
  const job = await ended(queued.id);
  expect(job).toMatchObject({
    status: "succeeded",
    exit_code: 0,
    failure_reason: null,
    pr_url: null,
    attempt: 1,
  });
  expect(job.branch).toBe(`service/${job.id.slice(0, 8)}`);
  expect(await remote.branches()).toEqual(["main", job.branch]);
  expect(await git(remote.path, "rev-parse", String(job.branch))).toBe(job.commit_sha);
  expect(job.diff_stat?.files).toBeGreaterThan(0);
  expect(job.error).toBeNull();
  expect(job.warnings.join()).toMatch(/no pull request was opened/);
  expect(job.stages.map(({ stage }) => stage).join(" ")).toBe(
    "queued claimed fetched worktree_ready agent_started first_output result pushed ended",
  );
  expect(existsSync(String(job.worktree_path))).toBe(true);
});

test("what the agent leaves uncommitted is committed and pushed with the rest", async () => {
  const remote = await makeRemote();
  const job = await ended((await submit("scenario: commit-dirt", { repo_url: remote.path })).id);
  expect(job.status).toBe("succeeded");
  expect(await git(String(job.worktree_path), "status", "--porcelain")).toBe("");
  expect(await remote.show(`${job.branch}:dirt.txt`)).toContain("dirt");
});

test("a job that fails keeps its work under a salvage ref of the cached clone and says why", async () => {
  const remote = await makeRemote();
  const job = await ended(
    (await submit('scenario: error-result {"dirt": true}', { repo_url: remote.path })).id,
  );
  expect(job).toMatchObject({
    status: "failed",
    failure_reason: "agent_error",
    salvage_ref: `refs/service/salvage/${job.id}`,
  });
  expect(await remote.branches()).toEqual(["main"]);
});

test("a cancelled job ends at once, with its agent and all that it started, and its work is saved", async () => {
  const remote = await makeRemote();
  const { id } = await submit('scenario: grandchildren {"dirt": true}', { repo_url: remote.path });
  await until(async () =>
    (await service.client.get_job({ job_id: id })).job.stages.some(({ stage }) => stage === "first_output"),
  );
  const { job } = await service.client.cancel_job({ job_id: id });
  expect(job.status).toBe("cancelled");
  const settled = await until(async () => {
    const { job: now } = await service.client.get_job({ job_id: id });
    return now.salvage_ref === null ? null : now;
  });
  expect(settled.status).toBe("cancelled");
  expect(settled.ended_at).toBe(job.ended_at);
});

test("without a repository the agent works in an empty directory", async () => {
  const queued = await submit("Do the default thing");
  expect(queued.warnings).toEqual([expect.stringMatching(/^No repository was given/)]);
  const job = await ended(queued.id);
  expect(job).toMatchObject({ status: "succeeded", repo_url: "", pr_url: null, warnings: queued.warnings });
  expect(job.commit_sha).toMatch(/^[0-9a-f]{40}$/);
});

test("base_ref left out is the default branch of a repository without main, and the job names it; a session is resumed in its worktree and branch", async () => {
  const remote = await makeRemote();
  await git(remote.path, "branch", "-m", "main", "trunk");
  const job = await ended((await submit("Do the default thing", { repo_url: remote.path })).id);
  expect(job).toMatchObject({ status: "succeeded", base_ref: "trunk" });
  const named = await ended((await submit("x", { repo_url: remote.path, base_ref: "main" })).id);
  expect(named).toMatchObject({ status: "failed", failure_reason: "worktree_failed", base_ref: "main" });
  const next = await ended((await submit("Do more", { session_id: job.session_id })).id);
  const { session_id, worktree_id, worktree_path, branch, repo_url } = job;
  expect(next).toMatchObject({
    status: "succeeded",
    base_ref: "trunk",
    session_id,
    worktree_id,
    worktree_path,
    branch,
    repo_url,
  });
  expect(next.commit_sha).not.toBe(job.commit_sha);
  const origins = (await readFile(join(service.home, ".service", "origins.jsonl"), "utf8")).split("\n");
  const noted = origins.filter((line) => line.includes(String(session_id)));
  expect(noted.map((line) => (JSON.parse(line) as { job_id: string }).job_id)).toEqual([job.id, next.id]);
});

test("where the remote's default branch is another one than the base, the answer of the submission says so", async () => {
  const remote = await makeRemote();
  await git(remote.path, "branch", "trunk", "main");
  await git(remote.path, "symbolic-ref", "HEAD", "refs/heads/trunk");
  const queued = await submit("Do the default thing", { repo_url: remote.path });
  const warning = expect.stringMatching(
    /^The base is main, but the remote's default branch is trunk: give base_ref/,
  );
  expect(queued).toMatchObject({ base_ref: "main", warnings: [warning] });
  expect(await ended(queued.id)).toMatchObject({ status: "succeeded", base_ref: "main" });
  for (const base_ref of ["main", "trunk"])
    expect((await submit("x", { repo_url: remote.path, base_ref })).warnings).toEqual([]);
});

test("with SERVICE_BASE_REF=HEAD the base is the remote's default branch, and a remote that does not answer holds no submission up for more than 5 s", async () => {
  const own = await startService({ env: { SERVICE_BASE_REF: "HEAD" } });
  const remote = await makeRemote();
  await git(remote.path, "branch", "trunk", "main");
  await git(remote.path, "symbolic-ref", "HEAD", "refs/heads/trunk");
  const { job } = await own.client.run_task({ task: "x", repo_url: remote.path, wait: true });
  expect(job).toMatchObject({ status: "succeeded", base_ref: "trunk" });
  expect(job.warnings.join()).not.toContain("default branch");
  const silent = createServer().listen(0, "127.0.0.1");
  await once(silent, "listening");
  afterFile(() => silent.close());
  const { port } = silent.address() as AddressInfo;
  const began = performance.now();
  const asked = await own.client.run_task({ task: "x", repo_url: `https://127.0.0.1:${port}/a/b` });
  expect(asked.job.warnings).toEqual([]);
  expect(performance.now() - began).toBeGreaterThan(4900);
  expect(performance.now() - began).toBeLessThan(60_000);
  await own.client.cancel_job({ job_id: asked.job.id });
});

test("the review profile changes nothing and lists what it discarded", async () => {
  const remote = await makeRemote();
  const task = "Review this. scenario: commit-dirt";
  const job = await ended((await submit(task, { repo_url: remote.path, profile: "review" })).id);
  expect(job).toMatchObject({ status: "succeeded", profile: "review", branch: null });
  expect(job.warnings.join()).toMatch(/discarded/);
  expect(await remote.branches()).toEqual(["main"]);
});

test("on SIGTERM the service ends its agents, saves their work and exits 0", async () => {
  const remote = await makeRemote();
  const { job } = await service.client.run_task({
    task: 'scenario: sleep {"dirt": true}',
    repo_url: remote.path,
  });
  await asks(service).speaking(job.id);
  expect(await service.stop()).toBe(0);
  const record: unknown = JSON.parse(
    await readFile(join(service.home, ".service", "jobs", `${job.id}.json`), "utf8"),
  );
  expect(record).toMatchObject({
    status: "failed",
    failure_reason: "instance_lost",
    retryable: true,
    unsettled: false,
  });
  expect((record as { salvage_ref: string | null }).salvage_ref).not.toBeNull();
});
