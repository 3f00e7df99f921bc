import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findExecutable } from "../../src/lib/process/executable.ts";
import { svc } from "../cli/run-svc.ts";
import { startFakeGitHost, type FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { fakeAgent, startService, svcProgram } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/** What is wrong with the machine: the service says so when it starts, and starts whenever it can be of use. */
let home: string;

beforeAll(async () => {
  home = await temporaryDirectory();
});

const serve = (env: Record<string, string>, under: string[] = []) =>
  svc(["serve"], {
    env: { HOME: home, SERVICE_PORT: "0", ...env },
    cwd: home,
    program: [...under, ...svcProgram],
  });

const isRoot = process.getuid?.() === 0;

test("svc serve ends with a sentence when its job records have no place", async () => {
  const file = join(home, "a-file");
  const readOnly = join(home, "read-only");
  await writeFile(file, "");
  await mkdir(readOnly);
  const mounted = ["sh", "-c", `mount -t tmpfs -o ro tmpfs "${readOnly}" && exec "$@"`, "sh"];
  const under = ["unshare", "--mount", ...(isRoot ? [] : ["--map-root-user"]), ...mounted];
  for (const jobsDir of [file, join(file, "below"), readOnly]) {
    const { code, stdout, stderr } = await serve(
      { SERVICE_JOBS_DIR: jobsDir },
      jobsDir === readOnly ? under : [],
    );
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(
      /^svc: The job records cannot be kept in .* may write to, or name another with SERVICE_JOBS_DIR\n$/,
    );
    expect(stderr).toContain(jobsDir);
  }
});

/** In a mount namespace of its own, with a small disk at a path that has only this much room left. */
const withFullDisk = (path: string, left: string): string[] => {
  const script = `mount -t tmpfs -o size=512k tmpfs "$1" && cd "$1" && ! cat /dev/zero >.filler 2>&- &&
    truncate --size=-${left} .filler && cd / && shift && exec "$@"`;
  return ["unshare", "--mount", ...(isRoot ? [] : ["--map-root-user"]), "sh", "-c", script, "sh", path];
};

test("svc serve ends with a sentence on a full disk, and starts when there is room for a record", async () => {
  const disk = join(home, "full");
  await mkdir(disk);
  for (const variable of ["SERVICE_JOBS_DIR", "SERVICE_WORKTREE_ROOT"]) {
    const { code, stdout, stderr } = await serve({ [variable]: disk }, withFullDisk(disk, "4K"));
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toBe(
      `svc: Nothing can be written to ${disk} (ENOSPC: no space left on device, write): free some space there, or name another directory with ${variable}\n`,
    );
  }
  const { output } = await startService({
    env: { SERVICE_JOBS_DIR: disk },
    under: withFullDisk(disk, "80K"),
  });
  expect(output.stdout).toContain("listening");
});

test("svc serve ends with a sentence when its port is taken", async () => {
  await using other = createServer();
  await new Promise<void>((resolve) => void other.listen(0, "127.0.0.1", resolve));
  const { port } = other.address() as AddressInfo;
  const { code, stdout, stderr } = await serve({ SERVICE_PORT: String(port) });
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toMatch(new RegExp(`^svc: .*\\b${port}\\b.* taken.*--port or SERVICE_PORT`, "m"));
});

test("a second service on the same home ends with a sentence, and the first continues", async () => {
  const first = await startService();
  const { code, stdout, stderr } = await serve({ HOME: first.home });
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toMatch(
    /^svc: The service at http:\/\/127\.0\.0\.1:\d+ \(process \d+\) uses .*\/\.service\/jobs; stop it, or give this one .* with SERVICE_JOBS_DIR\n$/,
  );
  const { job } = await first.client.run_task({ task: "Do the default thing", wait: true });
  expect(job).toMatchObject({ status: "succeeded" });
});

test("a start without any model credential warns, and says which variables to set", async () => {
  const warning = /"level":"warn".*No model credential is set.*AGENT_CLI_OAUTH_TOKEN.*MODEL_API_AUTH_TOKEN/;
  const none = { SERVICE_ALLOW_NO_MODEL_CREDENTIAL: undefined };
  expect((await startService({ env: none })).output.stderr).toMatch(warning);
  const services = [
    { AGENT_CLI_OAUTH_TOKEN: "long-lived-token" },
    { MODEL_API_AUTH_TOKEN: "static-key" },
    { ANTHROPIC_API_KEY: "native-key" },
    { SERVICE_AGENT_ENV: "CLAUDE_CODE_USE_BEDROCK" },
  ].map((env) => startService({ env: { ...none, ...env } }));
  for (const { output } of await Promise.all(services))
    expect(output.stderr).not.toContain("No model credential");
});

test("a second service on the same worktrees ends with a sentence, and one that starts after the first has them", async () => {
  const first = await startService();
  const root = join(first.home, ".service", "worktrees");
  const { code, stdout, stderr } = await serve({
    HOME: await temporaryDirectory(),
    SERVICE_WORKTREE_ROOT: root,
  });
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toMatch(
    /^svc: The service at http:\/\/127\.0\.0\.1:\d+ \(process \d+\) uses .*\/worktrees; stop it, or give this one .* with SERVICE_WORKTREE_ROOT\n$/,
  );
  await first.kill();
  await startService({ env: { SERVICE_WORKTREE_ROOT: root } });
});

test("the start warns of a profile that cannot be used, with its file and its fault", async () => {
  const own = await temporaryDirectory();
  await mkdir(join(own, ".service", "profiles"), { recursive: true });
  await writeFile(join(own, ".service", "profiles", "mine.yml"), "nonsense: 1\n");
  expect((await startService({ home: own })).output.stderr).toMatch(
    /"level":"warn".*Profile mine cannot be used: .*mine\.yml: unknown key nonsense/,
  );
});

test("the start and each job report a missing agent CLI until it is installed", async () => {
  const cli = join(home, "cli", "claude");
  const service = await startService({ env: { SERVICE_AGENT_CLI_BINARY: cli } });
  const run = async () => (await service.client.run_task({ task: "Do the default thing", wait: true })).job;
  expect(service.output.stderr).toMatch(
    /"level":"warn".*Every job will fail: install the agent CLI or point SERVICE_AGENT_CLI_BINARY/,
  );
  const job = await run();
  expect(job).toMatchObject({
    status: "failed",
    failure_reason: "cli_not_found",
    retryable: false,
    exit_code: null,
  });
  expect(job.error).toBe(
    `The program ${cli} does not exist. Install the agent CLI or point SERVICE_AGENT_CLI_BINARY at it.`,
  );
  await mkdir(join(home, "cli"));
  await writeFile(cli, `#!/bin/sh\nexec "${fakeAgent}" "$@"\n`, { mode: 0o755 });
  expect(await run()).toMatchObject({ status: "succeeded" });
});

let host: FakeGitHost;
beforeAll(async () => {
  host = await startFakeGitHost();
});
afterAll(() => host.close());

test("without gh the branch is pushed, and the start and the job say why there is no pull request", async () => {
  const repository = await host.createRepository("acme", "app");
  const service = await startService({
    env: {
      ...host.environment,
      PATH: await pathWithout("gh"),
      GIT_HOST: host.host,
      GIT_HOST_TOKEN: host.createToken(),
    },
  });
  expect(service.output.stderr).toMatch(
    /"level":"warn".*\\"gh\\" was not found on PATH.*no pull request opened: install gh/,
  );
  const { job } = await service.client.run_task({
    task: "Do the default thing",
    repo_url: `${host.origin}/acme/app`,
    wait: true,
  });
  expect(job).toMatchObject({ status: "succeeded", failure_reason: null, pr_url: null, error: null });
  expect(job.warnings.join()).toMatch(
    /^The branch service\/\w+ was pushed, but no pull request was opened: the program gh is not installed/,
  );
  expect(await readdir(join(repository.directory, "refs", "heads", "service"))).toEqual([
    String(job.branch).split("/")[1],
  ]);
});

/** A directory of links to the programs of the PATH but one. */
const pathWithout = async (missing: string): Promise<string> => {
  const directory = await temporaryDirectory();
  for (const name of ["node", "git", "sh", "env", "setpriv", "dirname", "readlink", "printf"]) {
    const found = await findExecutable(name, process.env["PATH"] ?? "");
    if (found.ok && name !== missing) await symlink(found.path, join(directory, name));
  }
  return directory;
};
