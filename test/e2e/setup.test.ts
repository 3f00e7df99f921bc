import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { svc } from "../cli/run-svc.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runJob, stagesOf } from "./ended-job.ts";

/* The setup of a repository, in the sandbox, as who submits sees it. */

let service: Service;
/** A registry of this machine that the operator permits. */
let registry: string;

beforeAll(async () => {
  const home = await temporaryDirectory();
  const server = createServer((_asked, answer) => answer.end("a package"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterFile(() => void server.close());
  registry = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const profiles = join(home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  const checks = [
    {
      name: "package",
      run: 'test "$(cat package.ignored) $LEVEL $(curl -s $WEB_AT)" = "a package 3 served"',
    },
  ];
  await writeFile(join(profiles, "checked.yml"), JSON.stringify({ extends: "code", checks }));
  const warm = [
    { name: "warm", run: 'test "$(cat deps/a ~/.cache/tool/a each.ignored)" = "$(printf "1\\n2\\n3")"' },
  ];
  await writeFile(join(profiles, "warm.yml"), JSON.stringify({ extends: "code", checks: warm }));
  service = await startService({
    home,
    env: {
      SERVICE_SETUP_HOSTS: registry,
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "place-agent"),
      SERVICE_AGENT_SANDBOX_READ: join(import.meta.dirname, "../fake-agent"),
      ANTHROPIC_API_KEY: "sk-canary",
    },
  });
});

const withSetup = async (file: object) =>
  (await makeRemote({ ".svc/setup.yml": JSON.stringify(file), ".gitignore": "*.ignored" })).path;

const shown = async (...args: string[]): Promise<string> =>
  (await svc(args, { env: { SERVICE_PORT: new URL(service.url).port } })).stdout;

/** Ends well if the host lets itself be fetched from. */
const fetches = (url: string): string => `curl --silent --fail --max-time 20 ${url}`;

/** Of a service in the sandbox, which has ports of its own. */
const web = "http://127.0.0.1:8123/";

const serves = `require("http").createServer((_, answer) => answer.end("served")).listen(8123, "127.0.0.1")`;

test("a repository's setup is run in the sandbox with its hosts alone; the agent has its files and env, and no hosts", async () => {
  const run = [
    `${fetches(`http://${registry}/`)} > package.ignored`,
    `! ${fetches("https://other.invalid/")}`,
    "echo homely > ~/.cache/tool/x",
    "env; ! ls /root /etc/shadow; touch left.txt",
  ];
  const file = {
    run,
    cache: { key: ["README.md"], paths: ["~/.cache/tool", "package.ignored"] },
    hosts: [registry, "never.invalid"],
    env: { LEVEL: "3", ASK_AT: `http://${registry}/`, WEB_AT: web },
    versions: { git: 2 },
    services: [{ name: "web", command: `exec node -e '${serves}'`, ready: `curl --fail ${web}` }],
    each: [`curl --fail --silent ${web}`],
  };
  const repo_url = await withSetup(file);
  const job = await runJob(service, "Write it", { repo_url, profile: "checked" });
  expect(job).toMatchObject({
    status: "succeeded",
    setup: { cache: "cold", exit_code: 0, waited_seconds: 0 },
    checks: [{ status: "passed" }],
    sandbox: { mode: "bwrap", network: "model" },
  });
  expect(await readFile(join(String(job.worktree_path), "said.ignored"), "utf8")).toBe(
    "a package 3\nnone\nservedhomely\n",
  );
  expect(stagesOf(job).slice(3, 6)).toEqual(["worktree_ready", "setup", "agent_started"]);
  const next = await runJob(service, "Write it", { repo_url, profile: "checked" });
  expect(next).toMatchObject({
    status: "succeeded",
    setup: { cache: "warm" },
    checks: [{ status: "passed" }],
  });
  expect(await readFile(join(String(next.worktree_path), "said.ignored"), "utf8")).toContain("homely\n");
  const warnings = job.warnings.join("\n");
  expect(warnings).toContain("hosts that a repository may not: never.invalid;");
  expect(warnings).toContain("The setup was refused other.invalid:443");
  expect(warnings).toContain("which were put back: left.txt");
  expect(await shown("job", job.id)).toMatch(/^Setup +\d/m);
  const logs = await shown("logs", job.id);
  expect(logs).toContain("$ env; ! ls /root");
  expect(logs).toContain("LEVEL=3");
  expect(logs).not.toMatch(/sk-canary|ANTHROPIC/);
});

test("it can be tried alone, without a model", async () => {
  const file = {
    run: ["echo trying"],
    services: [{ name: "db", command: "true", ready: "true" }],
    env: { LEVEL: "1" },
    hosts: ["npm", "never.invalid"],
    versions: { git: 2, "no-such-program": 3 },
    on_failure: "continue",
  };
  const repo = await withSetup(file);
  const env = { SERVICE_PORT: new URL(service.url).port, HOME: await temporaryDirectory() };
  const failed = await svc(["setup", "--repo", repo], { env });
  expect(failed).toMatchObject({ code: 1 });
  expect(failed.stdout).toContain("no-such-program 3");
  const good = await svc(["setup", "--repo", await withSetup({ run: file.run }), "--json"], { env });
  expect(good.code).toBe(0);
  expect(JSON.parse(good.stdout)).toMatchObject({
    job: { status: "succeeded", setup: { exit_code: 0 }, session_id: null },
  });
});

test("a setup that fails tells why, before the agent is paid", async () => {
  const job = await runJob(service, "Write it", {
    repo_url: await withSetup({ run: ["echo no such package; exit 4"] }),
  });
  expect(job).toMatchObject({
    status: "failed",
    failure_reason: "setup_failed",
    retryable: true,
    cost_usd: null,
    session_id: null,
    setup: { exit_code: 4 },
  });
  const page = await shown("job", job.id);
  expect(page).toContain("The setup failed: exit code 4");
  expect(page).toContain("no such package");
  expect(await shown("logs", job.id)).toContain("no such package");
});

test("what a setup makes is given to later jobs of its repository, whose checks have it too, and gets into no commit", async () => {
  const made = "mkdir -p deps ~/.cache/tool && echo 1 >> deps/a && echo 2 >> ~/.cache/tool/a";
  const cache = { key: ["lock.txt"], paths: ["deps", "~/.cache/tool"] };
  const setup = JSON.stringify({ run: [made], each: ["echo 3 > each.ignored"], cache });
  const files = { ".svc/setup.yml": setup, ".gitignore": "*.ignored", "lock.txt": "1\n" };
  const [repo_url, fork] = [(await makeRemote(files)).path, (await makeRemote(files)).path];
  const run = (url: string) => runJob(service, "Write it", { repo_url: url, profile: "warm" });
  for (const [url, expected] of [
    [repo_url, "cold"],
    [repo_url, "warm"],
    [fork, "cold"],
  ] as const) {
    const job = await run(url);
    expect(job).toMatchObject({
      status: "succeeded",
      setup: { cache: expected, exit_code: 0, waited_seconds: 0 },
      checks: [{ status: "passed" }],
    });
    expect(job.warnings.filter((text) => !text.includes("no pull request"))).toEqual([]);
    expect(job.diff_stat?.files).toBe(1);
  }
  expect(await shown("disk")).toMatch(new RegExp(` WARM [^]*${repo_url}`));
  const { removed } = await service.client.clear_environments({});
  expect(removed).toBeGreaterThanOrEqual(2);
  expect(await shown("cache", "clear")).toBe("0 warm environments removed, 0 B freed\n");
});

test("nothing of a setup is left when the service is killed; its env does not reach what makes the sandbox", async () => {
  const file = { run: [`${sleeper} & ${sleeper}`], env: { LD_PRELOAD: "/nowhere/evil.so" } };
  await service.client.run_task({ task: "Write it", repo_url: await withSetup(file) });
  const running = async () => (await processes()).filter(({ line }) => line.includes(sleeper));
  const found = await until(async () => {
    const all = await running();
    return all.filter(({ line }) => line === `${sleeper} `).length === 2 ? all : null;
  });
  const [outside] = found.filter(({ line }) => /^\S*bwrap /.test(line));
  expect(outside?.environment).toContain("SERVICE_JOB_ID=");
  expect(outside?.environment).not.toContain("LD_PRELOAD");
  await service.kill();
  await until(async () => (await running()).length === 0);
});

/** As nothing else on this machine runs it. */
const sleeper = `sleep ${1_000_000 + process.pid}`;

/** All that can be read; `line`: program and arguments, a space after each. */
const processes = async (): Promise<{ line: string; environment: string }[]> => {
  const read = async (path: string) => (await readFile(path, "utf8").catch(() => "")).replaceAll("\0", " ");
  const ids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  return await Promise.all(
    ids.map(async (id) => ({
      line: await read(`/proc/${id}/cmdline`),
      environment: await read(`/proc/${id}/environ`),
    })),
  );
};
