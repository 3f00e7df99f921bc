import { mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { findExecutable } from "../../src/lib/process/executable.ts";
import { bridgeProgram } from "../bridge/run-bridge.ts";
import { svc } from "../cli/run-svc.ts";
import { fakeAgent, startService, svcProgram } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { branchesOf, hostVariables, startHost } from "./hosted.ts";

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
  for (const jobsDir of [join(file, "below"), readOnly]) {
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

/** What lacks here stops no start: the agent CLI until it is installed, gh, and a profile that can be used. */
test("the start warns of a profile that cannot be used, a missing agent CLI and a missing gh; so do the jobs, which work without gh", async () => {
  const own = await temporaryDirectory();
  await mkdir(join(own, ".service", "profiles"), { recursive: true });
  await writeFile(join(own, ".service", "profiles", "mine.yml"), "nonsense: 1\n");
  const cli = join(own, "cli", "claude");
  const host = await startHost();
  const repository = await host.createRepository("acme", "app");
  const service = await startService({
    home: own,
    env: {
      ...hostVariables(host, host.createToken()),
      PATH: await pathWithout("gh"),
      SERVICE_AGENT_SANDBOX: "off",
      SERVICE_AGENT_CLI_BINARY: cli,
    },
  });
  for (const warning of [
    /"level":"warn".*Profile mine cannot be used: .*mine\.yml: unknown key nonsense/,
    /"level":"warn".*Every job will fail: install the agent CLI or point SERVICE_AGENT_CLI_BINARY/,
    /"level":"warn".*\\"gh\\" was not found on PATH.*no pull request opened: install gh/,
  ])
    expect(service.output.stderr).toMatch(warning);
  const task = { task: "Do the default thing", repo_url: `${host.origin}/acme/app`, wait: true };
  const run = async () => (await service.client.run_task(task)).job;
  expect(await run()).toMatchObject({
    status: "failed",
    failure_reason: "cli_not_found",
    retryable: false,
    exit_code: null,
    error: `The program ${cli} does not exist. Install the agent CLI or point SERVICE_AGENT_CLI_BINARY at it.`,
  });
  await mkdir(join(own, "cli"));
  await writeFile(cli, `#!/bin/sh\nexec "${fakeAgent}" "$@"\n`, { mode: 0o755 });

  // Nobody else may use its home or its worktrees; it goes on.
  const root = join(own, ".service", "worktrees");
  for (const [env, words] of [
    [
      { HOME: own },
      /\/\.service\/jobs; stop it, or give this one .*: SERVICE_JOBS_DIR and SERVICE_WORKTREE_ROOT\n$/,
    ],
    [
      { HOME: await temporaryDirectory(), SERVICE_WORKTREE_ROOT: root },
      /\/worktrees; stop it, or give this one .*: SERVICE_JOBS_DIR and SERVICE_WORKTREE_ROOT\n$/,
    ],
  ] as const) {
    const { code, stdout, stderr } = await serve(env);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^svc: The service at http:\/\/127\.0\.0\.1:\d+ \(process \d+\) uses /);
    expect(stderr).toMatch(words);
  }
  const job = await run();
  expect(job).toMatchObject({ status: "succeeded", failure_reason: null, pr_url: null, error: null });
  expect(job.warnings.join()).toMatch(
    /^The branch service\/\w+ was pushed, but no pull request was opened: the program gh is not installed/,
  );
  expect(await branchesOf(repository)).toEqual(["main", job.branch]);

  await service.kill();
  await startService({ env: { SERVICE_WORKTREE_ROOT: root } });
});

/** A directory of links to the programs of the PATH but one. */
test("a sandbox that is named and does not work stops the start, with the reason and what to do; auto takes the next", async () => {
  const PATH = await pathWithout("gh");
  const { code, stdout, stderr } = await serve({ PATH, SERVICE_AGENT_SANDBOX: "bwrap" });
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toMatch(
    /^svc: SERVICE_AGENT_SANDBOX=bwrap: bubblewrap is not installed: apt-get install bubblewrap\. Or set it to auto/,
  );
  const wrong = await serve({ SERVICE_AGENT_SANDBOX: "chroot", SERVICE_AGENT_SANDBOX_HOSTS: "http://a" });
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toMatch(
    /SERVICE_AGENT_SANDBOX is "chroot": it must be one of auto, bwrap, landlock, off/,
  );
  expect(wrong.stderr).toMatch(/SERVICE_AGENT_SANDBOX_HOSTS is "http:\/\/a": it names a host that cannot be/);
  const doctor = async (sandbox: string) =>
    (
      await svc(["doctor", "--offline", "--json"], {
        env: { HOME: home, PATH, SERVICE_AGENT_SANDBOX: sandbox },
      })
    ).stdout;
  expect(await doctor("bwrap")).toMatch(/bubblewrap is not installed: apt-get install bubblewrap/);
  expect(await doctor("auto")).toMatch(/Landlock/);
  expect(await doctor("off")).toMatch(
    /Agents run without a sandbox, as SERVICE_AGENT_SANDBOX=off says; \.svc\/setup\.yml of /,
  );
});

const pathWithout = async (missing: string): Promise<string> => {
  const directory = await temporaryDirectory();
  for (const name of ["node", "git", "sh", "env", "setpriv", "dirname", "readlink", "printf"]) {
    const found = await findExecutable(name, process.env["PATH"] ?? "");
    if (found.ok && name !== missing) await symlink(found.path, join(directory, name));
  }
  return directory;
};

test.each([
  ["unset", ["env", "-u", "HOME"]],
  ["empty", ["env", "HOME="]],
  ["no path", ["env", "HOME=home"]],
])(
  "for a user whom no account knows, a HOME that is %s is refused by each command with what to set",
  async (_what, under) => {
    // As a container's number of its own, which /etc/passwd does not have.
    const program = ["unshare", "--map-user=1000680000", ...under, ...svcProgram];
    const bridge = [...program.slice(0, -1), bridgeProgram];
    const options = { env: { SERVICE_PORT: "0", BRIDGE_PORT: "0" }, cwd: home };
    for (const [command, args] of [
      [program, ["serve"]],
      [program, ["jobs"]],
      [bridge, ["serve"]],
      [bridge, ["sessions"]],
    ] as const) {
      const { code, stdout, stderr } = await svc(args, { ...options, program: command });
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toMatch(
        /: HOME names no directory: set it to one that this user may write to, as \/home\/me\n$/,
      );
      expect(stderr).not.toMatch(/uv_os|\.ts:\d/);
    }
  },
);
