import { beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { asks } from "../asks.ts";
import type { App } from "../fake-git-host/apps.ts";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { startService, type Service } from "../service.ts";
import { runJob } from "./ended-job.ts";
import { hostVariables, startHost } from "./hosted.ts";

let host: FakeGitHost;
let app: App;
let service: Service;

/** A service that has an app's key in one of its forms; as a file, and beside a static token: canary.test.ts. */
const serviceOf = (of: App, key: Record<string, string>) =>
  startService({
    env: {
      ...hostVariables(host, null),
      GIT_HOST_APP_ID: of.appId,
      GIT_HOST_APP_INSTALLATION_ID: of.installationId,
      ...key,
    },
  });

const inOneLine = ({ privateKey }: App) => privateKey.trim().replaceAll("\n", String.raw`\n`);

beforeAll(async () => {
  host = await startHost();
  for (const name of ["app", "revoked", "short"])
    await host.createRepository("acme", name, { private: true });
  app = host.createApp({ owner: "acme" });
  service = await serviceOf(app, { GIT_HOST_APP_PRIVATE_KEY: inOneLine(app) });
});

const repoUrl = (name: string): string => `${host.origin}/acme/${name}.git`;
const mintsFor = (name: string) => app.mints.filter(({ request }) => request.repositories?.includes(name));
const expectPull = (job: Job): void => {
  expect(job).toMatchObject({ status: "succeeded", error: null });
  const pull = host.pullRequests.find(({ url }) => url === job.pr_url);
  expect(pull?.author).toMatch(/^app-\d+\[bot\]$/);
};

test("a token is minted once, for the job's repository, contents and pull requests alone; creating one takes a wider one", async () => {
  const run = (name: string, create_repo = false) =>
    runJob(service, "Do it", { repo_url: repoUrl(name), create_repo });
  for (const job of await Promise.all([run("app"), run("app")])) expectPull(job);
  expect(await run("made-by-app", true)).toMatchObject({ status: "succeeded", error: null });
  const permissions = { contents: "write", pull_requests: "write", metadata: "read" };
  expect(app.mints.map(({ request }) => request)).toEqual([
    { repositories: ["app"], permissions },
    {},
    { repositories: ["made-by-app"], permissions },
  ]);
});

test("a token that is revoked or expires in mid-run is replaced, for the push and the pull request", async () => {
  const { submit, speaking, ended } = asks(service);
  const used = (tokens: string[]) =>
    host.requests.filter(({ authorization }) =>
      tokens.some(
        (each) => authorization === `Basic ${Buffer.from(`x-access-token:${each}`).toString("base64")}`,
      ),
    ).length;
  /** How often those that the host no longer knew were given to it. */
  const losingTheirs = async (name: string, seconds: number): Promise<number> => {
    app.tokenSeconds = seconds;
    const { id } = await submit({ task: 'scenario: work {"ms": 500}', repo_url: repoUrl(name) });
    await speaking(id);
    const lost = mintsFor(name).map(({ token }) => token);
    const before = used(lost);
    for (const token of lost) host.tokens.delete(token);
    expectPull(await ended(id));
    return used(lost) - before;
  };
  expect(await losingTheirs("revoked", 3600)).toBeGreaterThan(0);
  expect(mintsFor("revoked")).toHaveLength(2);
  // That the others end too soon for a push the service knows.
  expect(await losingTheirs("short", 60)).toBe(0);
  app.tokenSeconds = 3600;
});

test("a minted token is masked in events, output and log from the moment it exists", async () => {
  const token = mintsFor("app")[0]?.token ?? "";
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
  const repo_url = `${host.origin}/other/open.git`;
  const job = await runJob(service, "scenario: noop", { repo_url, profile: "review" });
  expect(job).toMatchObject({ status: "succeeded", error: null });
  const changed = await runJob(service, "Do it", { repo_url });
  expect(changed).toMatchObject({ status: "failed", failure_reason: "push_failed", pid: null });
});

test("a token that cannot be minted fails the job, which names the app", async () => {
  const stranger = inOneLine(host.createApp({ owner: "acme" }));
  const mistaken = await serviceOf(app, { GIT_HOST_APP_PRIVATE_KEY: stranger });
  const job = await runJob(mistaken, "Do it", { repo_url: repoUrl("app") });
  expect(job).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
  expect(job.error).toContain(`no token could be got for the app ${app.appId}`);
});

test("a host that says when it takes requests again is not asked before", async () => {
  const own = host.createApp({ owner: "acme" });
  const key = Buffer.from(own.privateKey).toString("base64");
  const limited = await serviceOf(own, { GIT_HOST_APP_PRIVATE_KEY_BASE64: key });
  expectPull(await runJob(limited, "Do it", { repo_url: repoUrl("app") }));
  const asked = () => host.requests.filter(({ url }) => url.endsWith(`${own.installationId}/access_tokens`));
  using _limit = host.refuse({ what: "token", how: 429, retryAfter: 3600 });
  const job = await runJob(limited, "Do it", { repo_url: repoUrl("short") });
  expect(job).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
  const before = asked().length;
  expect(before).toBeGreaterThan(1);
  const next = await runJob(limited, "Do it", { repo_url: repoUrl("short") });
  expect(next.error).toMatch(/the host takes no requests until 20\d\d-/);
  expect(asked()).toHaveLength(before);
});
