import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { App } from "../fake-git-host/apps.ts";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runJob } from "./ended-job.ts";
import { hostVariables, startHost } from "./hosted.ts";

let host: FakeGitHost;
let app: App;

beforeAll(async () => {
  host = await startHost();
  await host.createRepository("acme", "app", { private: true });
  app = host.createApp({ owner: "acme" });
});

/** A service that has an app's key in one of its forms. */
const serviceOf = (of: App, key: Record<string, string>, token: string | null = null) =>
  startService({
    env: {
      ...hostVariables(host, token),
      GIT_HOST_APP_ID: of.appId,
      GIT_HOST_APP_INSTALLATION_ID: of.installationId,
      ...key,
    },
  });

/** A job on the app's repository, done by such a service. */
const runWith = async (key: Record<string, string>, token: string | null) =>
  await runJob(await serviceOf(app, key, token), "Do it", { repo_url: repoUrl("app") });

const repoUrl = (name: string): string => `${host.origin}/acme/${name}.git`;

/** An app of its own, with its service. */
const freshApp = async (options: { tokenSeconds?: number } = {}) => {
  const own = host.createApp({ owner: "acme", ...options });
  return { own, service: await serviceOf(own, { GIT_HOST_APP_PRIVATE_KEY: own.privateKey }) };
};

const pathOf = async (key: string): Promise<string> => {
  const path = join(await temporaryDirectory(), "key.pem");
  await writeFile(path, key, { mode: 0o600 });
  return path;
};

test.concurrent.each<[string, (key: string) => Promise<Record<string, string>>]>([
  ["a file", async (key) => ({ GIT_HOST_APP_PRIVATE_KEY_PATH: await pathOf(key) })],
  [
    "PEM text in one line",
    async (key) => ({ GIT_HOST_APP_PRIVATE_KEY: key.trim().replaceAll("\n", String.raw`\n`) }),
  ],
  ["base64", async (key) => ({ GIT_HOST_APP_PRIVATE_KEY_BASE64: Buffer.from(key).toString("base64") })],
])(
  "with the app's key as %s its token, not the static one, clones, pushes and opens the pull request",
  async (_, form) => {
    const unused = host.createToken({ login: "unused" });
    const job = await runWith(await form(app.privateKey), unused);
    expect(job).toMatchObject({ status: "succeeded", error: null });
    expect(host.pullRequests.find(({ url }) => url === job.pr_url)?.author).toBe(`app-${app.appId}[bot]`);
    expect(host.requests.filter(({ authorization }) => authorization?.includes(unused))).toEqual([]);
  },
);

test("a token that cannot be minted is replaced by the static one; without it the job fails and names the app", async () => {
  const stranger = { GIT_HOST_APP_PRIVATE_KEY: host.createApp({ owner: "acme" }).privateKey };
  const [withToken, without] = await Promise.all([
    runWith(stranger, host.createToken({ login: "spare" })),
    runWith(stranger, null),
  ]);
  expect(withToken.status).toBe("succeeded");
  expect(host.pullRequests.find(({ url }) => url === withToken.pr_url)?.author).toBe("spare");
  expect(without).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
  expect(without.error).toContain(`no token could be got for the app ${app.appId}`);
});

test("a token is minted once, for the job's repository, contents and pull requests alone; creating one takes a wider one", async () => {
  const { own, service } = await freshApp();
  const run = async (name: string, create_repo = false) => {
    const job = await runJob(service, "Do it", { repo_url: repoUrl(name), create_repo });
    expect(job).toMatchObject({ status: "succeeded", error: null });
  };
  await Promise.all([run("app"), run("app")]);
  await run("made-by-app", true);
  const permissions = { contents: "write", pull_requests: "write", metadata: "read" };
  expect(own.mints.map(({ request }) => request)).toEqual([
    { repositories: ["app"], permissions },
    {},
    { repositories: ["made-by-app"], permissions },
  ]);
});

test("a token that is revoked or expires in mid-run is replaced, once, for the push and the pull request", async () => {
  const revoked = await freshApp();
  const { job } = await revoked.service.client.run_task({
    task: 'scenario: work {"ms": 1500}',
    repo_url: repoUrl("app"),
  });
  await until(() => revoked.own.mints.length === 1);
  const running = async () => (await revoked.service.client.get_job({ job_id: job.id })).job;
  await until(async () => (await running()).stages.some(({ stage }) => stage === "agent_started"));
  host.tokens.delete(revoked.own.mints[0]?.token ?? "");
  await until(async () => (await running()).ended_at !== null, { seconds: 45, what: "the job to end" });
  expect(await running()).toMatchObject({ status: "succeeded", pr_url: expect.any(String) });
  expect(revoked.own.mints).toHaveLength(2);

  const short = await freshApp({ tokenSeconds: 2 });
  const done = await runJob(short.service, 'scenario: work {"ms": 2500}', { repo_url: repoUrl("app") });
  expect(done).toMatchObject({ status: "succeeded", pr_url: expect.any(String) });
});

test("a host that says when it takes requests again is not asked before", async () => {
  const { own, service } = await freshApp();
  const asked = () => host.requests.filter(({ url }) => url.endsWith(`${own.installationId}/access_tokens`));
  using _limit = host.refuse({ what: "token", how: 429, retryAfter: 3600 });
  const job = await runJob(service, "Do it", { repo_url: repoUrl("app") });
  expect(job).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
  const before = asked().length;
  expect(before).toBeGreaterThan(0);
  const next = await runJob(service, "Do it", { repo_url: repoUrl("app") });
  expect(next.error).toMatch(/the host takes no requests until 20\d\d-/);
  expect(asked()).toHaveLength(before);
});

test("a minted token is masked in events, output and log from the moment it exists", async () => {
  const { own, service } = await freshApp();
  await runJob(service, "Do it", { repo_url: repoUrl("app") });
  const token = own.mints[0]?.token ?? "";
  expect(token).toMatch(/^ghs_/);
  const job = await runJob(service, `scenario: work {"file": "x.txt", "message": "I found ${token}"}`);
  const events = await fetch(`${service.url}/jobs/${job.id}/events`);
  const [whileItRan] = (await events.text()).split("event: end");
  expect(whileItRan).toContain("I found ***");
  expect(whileItRan).not.toContain(token);
  expect(job.output).not.toContain(token);
  expect(service.output.stderr + service.output.stdout).not.toContain(token);
  const basic = Buffer.from(`x-access-token:${token}`).toString("base64");
  expect(service.output.stderr).not.toContain(basic);
});

test("a repository without the app is fetched without a token, and nothing can be pushed to it", async () => {
  await host.createRepository("other", "open", { private: false });
  const { service } = await freshApp();
  const repo_url = `${host.origin}/other/open.git`;
  const job = await runJob(service, "scenario: noop", { repo_url, profile: "review" });
  expect(job).toMatchObject({ status: "succeeded", error: null });
  const changed = await runJob(service, "Do it", { repo_url });
  expect(changed).toMatchObject({ status: "failed", failure_reason: "push_failed", pid: null });
});
