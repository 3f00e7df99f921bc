import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { svc } from "../cli/run-svc.ts";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import type { Repository } from "../fake-git-host/state.ts";
import { git, makeRemote } from "../remote.ts";
import { startService } from "../service.ts";
import type { Service } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { hostVariables, startHost } from "./hosted.ts";

let host: FakeGitHost;

beforeAll(async () => {
  host = await startHost();
});

type Files = Record<string, string>;

/** Replaces all files of the repository's main branch. */
const publish = async ({ directory }: Repository, files: Files): Promise<void> => {
  const work = await temporaryDirectory();
  await git(work, "init", "--quiet", "--initial-branch=main");
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(work, name)), { recursive: true });
    await writeFile(join(work, name), content);
  }
  await git(work, "add", "--all");
  await git(work, "commit", "--quiet", "--allow-empty", "--message=Publish");
  await git(work, "push", "--quiet", "--force", directory, "main");
};

const published = async (name: string, files: Files): Promise<Repository> => {
  const repository = await host.createRepository("acme", name, { private: true });
  await publish(repository, files);
  return repository;
};

const syncOf = async ({ url }: Service, target = "all") => {
  const response = await fetch(`${url}/admin/sync?target=${target}`, { method: "POST" });
  return { status: response.status, body: (await response.json()) as Record<string, string> };
};

const syncWith = async ({ url }: Service, body: object) => {
  const headers = { "content-type": "application/json" };
  return (await fetch(`${url}/admin/sync`, { method: "POST", headers, body: JSON.stringify(body) })).json();
};

const profile = async ({ client }: Service, name: string) =>
  (await client.list_profiles()).profiles.find((each) => each.name === name);

const serve = (env: Record<string, string>, home?: string): Promise<Service> =>
  startService({
    env: { ...hostVariables(host, host.createToken()), ...env },
    ...(home !== undefined && { home }),
  });

test.concurrent("profiles of a private hook package and a bundle appear at start and after a sync, without a restart; a job keeps what it was claimed with", async () => {
  const ours = (memory: string): Files => ({
    "profiles/ours/profile.yml": "description: Ours\n",
    "profiles/ours/.claude/CLAUDE.md": memory,
  });
  const hooks = await published("hooks", {
    "profiles/coding/profile.yml": "description: Ours\n",
    ...ours("first"),
  });
  const bundle = await published("bundle", { "profiles/docs.yml": "description: Writes docs\n" });
  const service = await serve({
    SERVICE_HOOKS_URL: hooks.url,
    SERVICE_HOOKS_BUNDLE_URL: bundle.url,
    SERVICE_HOOKS_BUNDLE_SYNC_INTERVAL: "1",
  });
  expect(await profile(service, "coding")).toMatchObject({
    description: "Ours",
    error: null,
    source: expect.stringMatching(/\/acme\/hooks(\.git)?@[0-9a-f]{7}:profiles\/coding$/),
  });
  // HOOKS_PROFILE is coding unless it is set.
  const { job } = await service.client.run_task({ task: "Do it", wait: true });
  expect(job).toMatchObject({ status: "succeeded", profile: "coding", profile_rule: "HOOKS_PROFILE" });

  const { submit, speaking } = asks(service);
  const memoryOfNext = async () => {
    const { id } = await submit({ task: 'scenario: hang {"after": 1}', profile: "ours" });
    const { job_config_dir } = await speaking(id);
    return () => readFile(join(job_config_dir ?? "", "CLAUDE.md"), "utf8");
  };
  const memory = await memoryOfNext();
  await publish(bundle, { "profiles/docs.yml": "description: Newer\n" });
  await until(async () => (await profile(service, "docs"))?.description === "Newer");
  await publish(hooks, {
    "profiles/coding/profile.yml": "nonsense: 1\n",
    "profiles/more.yml": "",
    ...ours("second"),
  });
  expect(await syncOf(service)).toEqual({
    status: 200,
    body: { hooks: "ok", bundle: "ok", hub: "skipped (no url)" },
  });
  // At once: what is synced is in force when the answer is sent.
  expect(await profile(service, "more")).toMatchObject({ error: null });
  expect((await profile(service, "coding"))?.error).toMatch(/unknown key nonsense/);

  expect(await (await memoryOfNext())()).toBe("second");
  expect(await memory()).toBe("first");

  expect((await syncOf(service, "hub")).body).toEqual({ hub: "skipped (no url)" });
  const wrong = await syncOf(service, "other");
  expect([wrong.status, wrong.body["code"]]).toEqual([400, "invalid_request"]);
  expect(await syncWith(service, { target: "hub" })).toEqual({ hub: "skipped (no url)" });
  expect(await syncWith(service, { targets: "hub" })).toMatchObject({ code: "invalid_request" });
  const ready = (await (await fetch(`${service.url}/ready`)).json()) as { companions: object[] };
  expect(ready.companions).toEqual([
    { target: "hooks", age_seconds: expect.any(Number) },
    { target: "bundle", age_seconds: expect.any(Number) },
  ]);
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  expect(metrics).toMatch(/svc_companion_age_seconds\{target="bundle"\} \d/);
  expect(metrics).toContain('svc_companion_failing{target="hooks"} 0');
  const tools = await fetch(`${service.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
  });
  expect(await tools.text()).not.toContain("sync_companions");
  expect(service.output.stderr).not.toContain(service.env["GIT_HOST_TOKEN"]);
});

test.concurrent("a remote that is down at the first start stops nothing; the hub's agent answers once it is fetched", async () => {
  const hub = await published("hub", { "agents/writer/agent.yml": "description: Writes\n" });
  const hidden = `${hub.directory}.down`;
  await rename(hub.directory, hidden);
  const service = await serve({
    AGENT_MODE: "true",
    HUB_AGENT: "writer",
    SERVICE_HUB_URL: hub.url,
    SERVICE_HOOKS_URL: `${host.origin}/acme/missing`,
  });
  const models = () => fetch(`${service.url}/v1/models`);
  const early = await models();
  expect([early.status, await early.text()]).toEqual([503, expect.stringContaining("could not be fetched")]);
  expect((await syncOf(service)).body).toMatchObject({
    hooks: expect.stringMatching(/^error: /),
    hub: expect.stringMatching(/^error: /),
  });
  expect((await service.client.run_task({ task: "Do it", wait: true })).job.status).toBe("succeeded");
  await rename(hidden, hub.directory);
  expect((await syncOf(service, "hub")).body).toEqual({ hub: "ok" });
  expect(JSON.stringify(await (await models()).json())).toContain('"writer"');
});

test.concurrent("a service that is killed again and again while it syncs always reads one whole checkout", async () => {
  const files = (version: number): Files =>
    Object.fromEntries(
      Array.from({ length: 200 }, (_, index) => [
        `profiles/p${index}.yml`,
        `description: v${version}\nmatch: {repo: ["x"]}\n`,
      ]),
    );
  const bundle = await published("large", files(0));
  const home = await temporaryDirectory();
  for (let version = 1; version <= 2; version += 1) {
    const service = await serve({ SERVICE_HOOKS_BUNDLE_URL: bundle.url }, home);
    const { profiles } = await service.client.list_profiles();
    const versions = profiles.flatMap(({ description }) => /^v\d+$/.exec(description)?.[0] ?? []);
    expect([versions.length, new Set(versions).size]).toEqual([200, 1]);
    await publish(bundle, files(version));
    const cut = syncOf(service).catch(() => null);
    await new Promise((resolve) => setTimeout(resolve, version * 40));
    await service.kill();
    await cut;
  }
  const last = await serve({ SERVICE_HOOKS_BUNDLE_URL: bundle.url }, home);
  expect((await syncOf(last, "bundle")).body).toEqual({ bundle: "ok" });
  await until(async () => (await profile(last, "p199"))?.description === "v2");
});

test.concurrent("svc hooks sync fetches without a service, and a running one uses it", async () => {
  const remote = await makeRemote({ "profiles/ours.yml": "description: one\n" });
  const service = await serve({ SERVICE_HOOKS_URL: remote.path });
  expect((await profile(service, "ours"))?.description).toBe("one");
  await writeFile(join(remote.work, "profiles/ours.yml"), "description: two\n");
  await git(remote.work, "commit", "--quiet", "--all", "--message=Change");
  await git(remote.work, "push", "--quiet", "../remote.git", "HEAD:main");
  const { PATH = "", HOME = "" } = service.env;
  const env = { PATH, HOME, SERVICE_HOOKS_URL: remote.path };
  const done = await svc(["hooks", "sync", "--json"], { env });
  expect([done.code, JSON.parse(done.stdout)]).toEqual([
    0,
    { hooks: "ok", bundle: "skipped (no url)", hub: "skipped (no url)" },
  ]);
  await until(async () => (await profile(service, "ours"))?.description === "two");

  const failed = await svc(["hooks", "sync", "--target", "hooks", "--url", "/nowhere/x.git"], { env });
  expect([failed.code, failed.stdout]).toEqual([1, expect.stringMatching(/hooks +error: /)]);
  const wrong = await svc(["hooks", "sync", "--target", "hub", "--url", remote.path], { env });
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("--target hooks")]);
});
