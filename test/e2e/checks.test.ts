import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { afterFile } from "../cleanup.ts";
import { svc } from "../cli/run-svc.ts";
import { startFakeModel } from "../fake-model/fake-model.ts";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runJob } from "./ended-job.ts";
import { branchesOf, hostVariables, startHost } from "./hosted.ts";

/* Checks of an agent's work, as who submits and who reviews see them. Agents and checks are in a sandbox. */

let host: FakeGitHost;
let service: Service;
let env: Record<string, string>;

/** Green before the agent's work, and with the file. */
const needs = (file: string, then: string): string =>
  `test "$(ls)" = README.md || test -f ${file} || { echo 'scenario: ${then}'; exit 3; }`;

const readme = await readFile(join(import.meta.dirname, "../../README.md"), "utf8");

/** What README names as the checks of a profile. */
const readmeChecks = /`checks: (\[\{.*?\}\])`/.exec(readme)?.[1] ?? "";

const profiles: Record<string, object> = {
  mended: {
    deliver: { title: "{profile}: {summary}", body: "{task}, by job {job_id} on {branch}" },
    checks: [{ name: "mended", run: needs("mended.txt", 'work {"file": "mended.txt"}') }],
  },
  draft: { checks: [{ name: "tests", run: needs("never.txt", "work") }], check_rounds: 0, on_red: "draft" },
  strict: { extends: "readme", check_rounds: 0 },
  kept: { checks: [{ name: "tests", run: needs("never.txt", "work") }], check_rounds: 0 },
  curious: {
    checks: [
      { name: "environment", run: "env; ls /proc/*/environ | wc -l" },
      { name: "network", run: "! bash -c 'exec 3<>/dev/tcp/127.0.0.1/22' && ! cat /etc/shadow" },
    ],
  },
  waits: {
    checks: [
      {
        name: "waits",
        run: "test ! -f .gitignore || test -f waited.ignored || { touch waited.ignored; sleep 1000; }",
      },
    ],
  },
  bash: {
    checks: [
      {
        name: "mended",
        run: needs("mended.txt", 'bash {"command": "touch mended.txt"}'),
      },
    ],
  },
};

const profilesIn = async (home: string): Promise<void> => {
  const directory = join(home, ".service", "profiles");
  await mkdir(directory, { recursive: true });
  for (const [name, keys] of Object.entries(profiles))
    await writeFile(join(directory, `${name}.yml`), JSON.stringify({ extends: "code", ...keys }));
  await writeFile(join(directory, "readme.yml"), `extends: code\nchecks: ${readmeChecks}\n`);
};

beforeAll(async () => {
  host = await startHost();
  const ofHost = hostVariables(host, host.createToken({ login: "robot" }));
  env = { ...ofHost, ANTHROPIC_API_KEY: "sk-canary-of-the-model" };
  const home = await temporaryDirectory();
  await profilesIn(home);
  service = await startService({ home, env });
});

const pullOf = (job: Job) => host.pullRequests.find(({ url }) => url === job.pr_url);

test("red checks are told to the agent, which mends its work: a pull request that is ready lists them", async () => {
  const repository = await host.createRepository("acme", "mended");
  const job = await runJob(service, "Write it", { repo_url: repository.url, profile: "mended" });
  expect(job).toMatchObject({
    status: "succeeded",
    outcome: "changed",
    checks: [{ name: "mended", status: "passed", exit_code: 0, before: null }],
  });
  expect(pullOf(job)).toMatchObject({ draft: false, title: `mended: ${job.summary}` });
  const text = `Write it, by job ${job.id} on ${job.branch}\n\n### Checks\n\n- mended: passed`;
  expect(pullOf(job)?.body).toContain(text);
  const shown = await svc(["job", job.id], { env: portOf(service) });
  expect(shown.stdout).toMatch(/Checks +mended: passed, /);
  const logs = await svc(["logs", job.id], { env: portOf(service) });
  expect(logs.stdout).toMatch(/check mended .*\n[^]*check mended +failed, exit code 3/);
});

test("a submission names checks by their commands, which a profile that may only read refuses", async () => {
  const repository = await host.createRepository("acme", "named");
  const red = needs("mended.txt", 'work {"file": "mended.txt"}');
  const flags = ["-r", repository.url, "-p", "code", "--check", red, "--check", "true", "--wait"];
  const { code, stdout } = await svc(["run", "Write it", ...flags], { env: portOf(service) });
  expect([code, stdout]).toEqual([0, expect.stringMatching(/Checks +.*: passed, .*\n +true: passed, /)]);
  const { job } = await service.client.get_job({ job_id: stdout.slice(0, 36) });
  expect(job.checks.map(({ status }) => status)).toEqual(["passed", "passed"]);
  expect(job.options.checks).toEqual([red, "true"]);
  const names = job.stages.map(({ stage }) => stage);
  expect(names.slice(names.indexOf("result"))).toEqual([
    "result",
    "checks",
    "pushed",
    "pull_request",
    "ended",
  ]);
  // A continued job has them, too.
  const more = await svc(["continue", job.id, "Go on", "--wait", "--json"], { env: portOf(service) });
  expect(JSON.parse(more.stdout)).toMatchObject({ job: { options: { checks: [red, "true"] } } });
});

/** A repository whose date test is red. It says to the scripted agent what to do next. */
const withRedTest = async (name: string, then: string) => {
  const run = `test "$(cat date.txt)" = 2026-11-28 || { echo 'scenario: ${then}'; exit 1; }`;
  const files = {
    "package.json": JSON.stringify({ scripts: { test: "sh date.test.sh" } }),
    "date.test.sh": run,
  };
  return await host.createRepository("acme", name, { seed: files });
};

/** README's example, with the profile of its paragraph. */
const readmeExample = async (url: string, ...more: string[]) => {
  const [line = ""] = /^svc run "Fix the failing date test".*$/m.exec(readme) ?? [];
  const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain = ""]) => quoted ?? plain);
  const args = words.slice(1).map((word) => (word === "$REPO" ? url : word));
  const done = await svc([...args, "-p", "readme", ...more], { env: portOf(service) });
  const [id = ""] = /^[0-9a-f-]{36}$/m.exec(done.stdout) ?? [];
  return { ...done, job: (await service.client.get_job({ job_id: id })).job };
};

const portOf = ({ url }: Service) => ({ SERVICE_PORT: new URL(url).port });

test("README's example: the date test was red before, the agent is told that it still is, and mends it", async () => {
  const mend = 'work {"file": "date.txt", "content": "2026-11-28"}';
  const { job, code, stdout } = await readmeExample((await withRedTest("date", mend)).url);
  expect({ code, job }).toMatchObject({
    code: 0,
    job: {
      status: "succeeded",
      outcome: "changed",
      warnings: [],
      checks: [{ name: "tests", status: "passed" }],
    },
  });
  expect(stdout).toMatch(/^Status +succeeded$/m);
  expect(pullOf(job)).toMatchObject({ draft: false });
  expect(pullOf(job)?.body).not.toContain("red before");
});

test("README's example with an agent that does not mend it: succeeded, and told at each door; --must-pass: failed", async () => {
  const { url } = await withRedTest("other", "commit-nothing");
  const { job, code, stdout } = await readmeExample(url);
  const words = "tests was red before and still is";
  expect({ code, job }).toMatchObject({
    code: 0,
    job: {
      status: "succeeded",
      outcome: "changed",
      warnings: [words],
      checks: [{ status: "failed_before" }],
    },
  });
  expect(stdout).toMatch(new RegExp(`^Status +succeeded \\(${words}\\)$`, "m"));
  expect(stdout).toMatch(new RegExp(`^Warnings +- ${words}$`, "m"));
  // Two rounds, and what was told before the first.
  expect(stdout.match(/check tests .*npm test/g)).toHaveLength(4);
  expect(pullOf(job)).toMatchObject({ draft: false });
  expect(pullOf(job)?.body).toMatch(new RegExp(`^> \\[!WARNING\\]\n> ${words}: see the end\\.\n`));
  expect(pullOf(job)?.body).toMatch(/- tests: failed, as before the change\n\n#### tests\n/);
  const { stdout: list } = await svc(["jobs"], { env: portOf(service) });
  expect(list).toMatch(new RegExp(`^${job.id.slice(0, 8)} +succeeded ! .* → ${words}`, "m"));
  const { stdout: line } = await svc(["wait", job.id], { env: portOf(service) });
  expect(line).toContain(`succeeded (${words})`);

  const again = await readmeExample(url, "--must-pass", "-p", "strict");
  expect(again).toMatchObject({
    code: 1,
    job: { failure_reason: "checks_failed", checks: [{ status: "failed", before: { status: "failed" } }] },
  });
  expect(again.job.options.must_pass).toBe(true);
});

test("checks that stay red fail the job: with on_red: draft its pull request is none that is ready, also one that was", async () => {
  const repository = await host.createRepository("acme", "red");
  const green = await runJob(service, "Write it", { repo_url: repository.url });
  expect(pullOf(green)).toMatchObject({ draft: false });
  const over = { session_id: green.session_id, profile: "draft" };
  const again = await runJob(service, 'scenario: work {"file": "more.txt"}', over);
  expect(again.warnings.filter((warning) => warning.includes("on_red"))).toEqual([]);
  expect(again).toMatchObject({ status: "failed", outcome: "checks_failed", pr_url: green.pr_url });
  expect(pullOf(again)).toMatchObject({ draft: true });

  const job = await runJob(service, "Write it", { repo_url: repository.url, profile: "draft" });
  expect(job).toMatchObject({
    status: "failed",
    failure_reason: "checks_failed",
    outcome: "checks_failed",
    retryable: true,
    checks: [{ status: "failed", exit_code: 3, before: { status: "passed" } }],
  });
  const pull = pullOf(job);
  expect(pull).toMatchObject({ draft: true, head: job.branch });
  expect(pull?.body).toMatch(/^> \[!WARNING\]\n> Not ready for review: checks are red/);
  expect(pull?.body).toContain("#### tests\n\n```\nscenario: work\n```");
  const shown = await svc(["job", job.id], { env: portOf(service) });
  expect(shown.stdout).toContain("Output of tests\nscenario: work\n");
  const listed = await svc(["jobs", "--outcome", "checks_failed"], { env: portOf(service) });
  expect(listed.stdout).toContain(job.id.slice(0, 8));
});

test("without on_red nothing of red work is on the remote, and it can be continued", async () => {
  const repository = await host.createRepository("acme", "kept");
  const job = await runJob(service, "Write it", { repo_url: repository.url, profile: "kept" });
  expect(job).toMatchObject({
    outcome: "checks_failed",
    pr_url: null,
    salvage_ref: expect.anything() as string,
  });
  expect(await branchesOf(repository)).toEqual(["main"]);
  const over = { session_id: job.session_id, profile: "kept" };
  const next = await runJob(service, 'scenario: work {"file": "never.txt"}', over);
  expect(next).toMatchObject({ status: "succeeded", outcome: "changed" });
  expect(pullOf(next)).toMatchObject({ draft: false });
});

test("a check is in the job's sandbox: no credential, no other process, no host", async () => {
  const job = await runJob(service, "Write it", { repo_url: (await makeRemote()).path, profile: "curious" });
  expect(job).toMatchObject({ status: "succeeded", sandbox: { mode: "bwrap" } });
  const [environment, network] = job.checks;
  expect(environment?.log).toContain("CI=true");
  expect(JSON.stringify(job)).not.toContain("sk-canary");
  expect(environment?.log).not.toMatch(/ANTHROPIC|GIT_HOST_TOKEN|sk-canary/);
  expect(network).toMatchObject({ status: "passed" });
});

test("a job whose service is killed while its checks run is taken up by the next: no turn of the agent more", async () => {
  const { job } = await service.client.run_task({
    task: 'scenario: work {"file": ".gitignore", "content": "*.ignored"}',
    repo_url: (await makeRemote()).path,
    profile: "waits",
  });
  const path = await until(async () => (await service.client.get_job({ job_id: job.id })).job.worktree_path);
  await until(async () => (await stat(join(path, "waited.ignored")).catch(() => null)) !== null);
  await service.kill();
  service = await startService({ home: service.home, env });
  const ended = await until(
    async () => {
      const { job: now } = await service.client.get_job({ job_id: job.id });
      return now.ended_at === null ? null : now;
    },
    { what: "its end" },
  );
  expect(ended).toMatchObject({
    status: "succeeded",
    outcome: "changed",
    attempt: 1,
    // Of one turn.
    cost_usd: 0.0123,
    checks: [{ status: "passed" }],
  });
});

test("the real CLI mends what a check says in the same session", async () => {
  const model = await startFakeModel({ token: "model-token" });
  afterFile(() => model.close());
  const home = await temporaryDirectory();
  await profilesIn(home);
  const real = await startService({
    home,
    env: {
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "../../node_modules/.bin/claude"),
      MODEL_API_BASE_URL: model.url,
      MODEL_API_AUTH_TOKEN: "model-token",
    },
  });
  const remote = await makeRemote();
  const job = await runJob(real, 'scenario: bash {"command": "touch work.txt"}', {
    repo_url: remote.path,
    profile: "bash",
  });
  expect(job).toMatchObject({ status: "succeeded", outcome: "changed", checks: [{ status: "passed" }] });
  expect(await git(remote.path, "ls-tree", "--name-only", String(job.branch))).toContain("mended.txt");
  const told = model.requests.filter(({ body }) =>
    JSON.stringify(body).includes("The service has checked your work"),
  );
  expect(told.length).toBeGreaterThan(0);
});
