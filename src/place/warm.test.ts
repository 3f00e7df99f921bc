import { randomUUID } from "node:crypto";
import { chmod, lstat, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { createRunCommand } from "../agents/command.ts";
import type { Run } from "../jobs/run.ts";
import { createLog } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { plainGit } from "../repos/plain-git.fixture.ts";
import { makeRemote, makeRepos, type Remote } from "../repos/repos.fixture.ts";
import type { JobPatch } from "../store/job-store.ts";
import { createEnvironments } from "./environments.ts";
import type { JobSecret } from "../secrets/secrets.ts";
import { createSetup } from "./setup.ts";
import { createWarm } from "./warm.ts";

type Over = { maxBytes?: number; root?: string };

/** Makes worktrees ready as jobs do, without a sandbox. */
const makePlace = async ({ maxBytes = 1e9, root }: Over = {}) => {
  const home = await temporaryDirectory();
  const { repos } = await makeRepos({}, process.env, undefined, home);
  const log = createLog("silent", String);
  const closing = new AbortController();
  const environments = createEnvironments({
    root: root ?? join(home, "worktrees", ".environments"),
    maxBytes,
    requireRoom: async () => undefined,
    log,
    signal: closing.signal,
  });
  await environments.start();
  const env = { PATH: process.env["PATH"] };
  const runCommand = createRunCommand({
    settings: { agentEnv: [], agentHome: await temporaryDirectory() },
    env,
    redact: createRedactor([]),
  });
  const setUp = createSetup({
    repos,
    runCommand,
    warm: createWarm({ repos, environments, ownHome: null }),
    requireRoom: async () => undefined,
    isSandboxed: true,
    settings: { setupHosts: [], setupUnsandboxed: false },
  });
  const signal = new AbortController().signal;

  /** A job of the remote, whose worktree is made ready. */
  const ready = async (
    remote: Remote,
    { id = randomUUID(), aborted, secrets = [], base = "" }: Given = {},
  ) => {
    const warnings: string[] = [];
    let text = "";
    const noted: JobPatch = {};
    const run = {
      signal: aborted ?? signal,
      warn: (message: string) => void warnings.push(message),
      event: (event: { type: string; text?: string }) => void (text += event.text ?? ""),
      note: (patch: JobPatch) => void Object.assign(noted, patch),
      stage: () => undefined,
    } as unknown as Run;
    const url = repos.parseUrl(remote.url);
    const repo = await repos.fetch({ url, signal });
    const branch = `service/${id.slice(0, 8)}`;
    const worktree = await repos.addWorktree({
      repo,
      worktreeId: id,
      jobId: id,
      branch,
      baseRef: "",
      signal,
    });
    const setup = await setUp.of({ setupFor: () => null, readOnly: false }, worktree, run);
    const allowed = {
      hosts: [],
      read: [],
      write: [],
      temporaryBytes: 1,
      memoryBytes: null,
      processes: null,
    };
    const place = { worktree, launch: { allowed }, isUntouched: true, branch: base };
    const job = { jobId: id, run, secrets, lacks: [], ...place };
    if (setup !== null) await setUp.run(setup, job);
    return { worktree, warnings, text: () => text, setup: noted.setup };
  };
  return {
    ready,
    environments,
    repos,
    closing,
    signal,
    root: root ?? join(home, "worktrees", ".environments"),
  };
};

type Given = { id?: string; aborted?: AbortSignal; secrets?: JobSecret[]; base?: string };

const cache = { key: ["lock"], paths: ["deps", "built/here"] };

/** Counts its runs in the log, which is in no worktree. */
const makeProject = async (more: object = {}, run: string[] = []) => {
  const log = join(await temporaryDirectory(), "runs");
  const file = {
    run: [
      `echo run >> ${log}; mkdir -p deps built/here; cp lock deps/made-of; echo program > deps/program; chmod 755 deps/program; ln -s program deps/link; ln -s ../lock deps/out-of-deps; ln -s /usr/bin/env deps/env; touch -d 2020-01-01 deps/program; echo x > built/here/x`,
      ...run,
    ],
    each: ["cat deps/made-of"],
    cache,
    ...more,
  };
  const remote = await makeRemote();
  await remote.commit({ ".svc/setup.yml": JSON.stringify(file), lock: "one\n" });
  return { remote, runs: async () => (await readFile(log, "utf8").catch(() => "")).split("\n").length - 1 };
};

describe("a warm environment", () => {
  test("with a secret in it is not kept: the job fails, and the next one has nothing of it", async () => {
    const { ready } = await makePlace();
    const { remote, runs } = await makeProject({}, ["echo token=$TOKEN > deps/rc"]);
    const known = {
      name: "TOKEN",
      placeholder: "-",
      hosts: [],
      header: null,
      plain: true,
      isInside: true,
      branches: [],
      created_at: "2026-01-02T03:04:05Z",
    };
    const secrets = [{ ...known, value: "canary-0123456789" }];
    await expect(ready(remote, { secrets })).rejects.toThrow("A secret's value is in worktree/deps/rc");
    const next = await ready(remote);
    expect(next.setup).toMatchObject({ cache: "cold" });
    expect(await runs()).toBe(2);
  });

  test("is kept of a good setup, and given to the next job, whose `run` is skipped", async () => {
    const { ready, environments } = await makePlace();
    const { remote, runs } = await makeProject();
    const first = await ready(remote);
    expect(first).toMatchObject({ setup: { cache: "cold", exit_code: 0, waited_seconds: 0 }, warnings: [] });
    const second = await ready(remote);
    expect(second).toMatchObject({ setup: { cache: "warm", exit_code: 0 }, warnings: [] });
    expect(second.text()).toBe("$ cat deps/made-of\none\n");
    const deps = join(second.worktree.path, "deps");
    const program = await stat(join(deps, "program"));
    expect({
      mode: program.mode & 0o777,
      year: program.mtime.getUTCFullYear(),
      links: program.nlink,
    }).toEqual({
      mode: 0o755,
      year: 2020,
      links: 1,
    });
    expect(await readFile(join(deps, "out-of-deps"), "utf8")).toBe("one\n");
    expect((await lstat(join(deps, "env"))).isSymbolicLink()).toBe(true);
    // What one job changes does not reach another.
    await writeFile(join(deps, "program"), "changed\n");
    await environments.idle();
    const third = await ready(remote);
    expect(await readFile(join(third.worktree.path, "deps/program"), "utf8")).toBe("program\n");
    expect(await runs()).toBe(1);
  });

  test("is given on the branch that it was made on; that of the default branch on all", async () => {
    const { ready } = await makePlace();
    const { remote } = await makeProject();
    const cacheOn = async (base: string) => (await ready(remote, { base })).setup?.cache;
    expect(await cacheOn("service/of-an-agent")).toBe("cold");
    expect(await cacheOn("service/of-an-agent")).toBe("warm");
    expect(await cacheOn("")).toBe("cold");
    expect(await cacheOn("")).toBe("warm");
    expect(await cacheOn("topic")).toBe("warm");
  });

  test("of another lock file is given, too, and `run` brings it up to date", async () => {
    const { ready } = await makePlace();
    const { remote, runs } = await makeProject();
    await ready(remote);
    await remote.commit({ lock: "two\n" });
    const second = await ready(remote);
    expect(second.setup).toMatchObject({ cache: "nearest" });
    expect(second.text()).toContain("two\n");
    expect((await ready(remote)).setup).toMatchObject({ cache: "warm" });
    expect(await runs()).toBe(2);
  });

  test("gets into no commit, whatever the agent adds, and is not put back", async () => {
    const { ready, repos, signal } = await makePlace();
    const { remote } = await makeProject();
    const { worktree, warnings } = await ready(remote);
    expect(warnings).toEqual([]);
    expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("");
    await writeFile(join(worktree.path, "work.txt"), "work");
    await plainGit(worktree.path, "add", "--force", "deps", "work.txt");
    await repos.commitAll(worktree, "the work", signal);
    const named = await plainGit(worktree.path, "diff", "--name-only", "main", worktree.branch).catch(
      async () => await plainGit(worktree.path, "show", "--name-only", "--format=", worktree.branch),
    );
    expect(named.trim()).toBe("work.txt");
    expect((await stat(join(worktree.path, "deps/program"))).isFile()).toBe(true);
  });

  test("of a setup that failed is not kept: the next job tries itself", async () => {
    const { ready } = await makePlace();
    const { remote, runs } = await makeProject({}, ["exit 3"]);
    await expect(ready(remote)).rejects.toThrow("exit code 3");
    await expect(ready(remote)).rejects.toThrow("exit code 3");
    expect(await runs()).toBe(2);
  });

  test.each([
    ["that the commit has", { "deps/kept": "1" }, "deps of cache.paths is in the commit"],
    ["that is behind a link", { built: null }, "built of cache.paths is a link, or lies behind one"],
  ])("is refused at a path %s", async (_what, files, said) => {
    const { ready } = await makePlace();
    const { remote } = await makeProject();
    if ("deps/kept" in files) await remote.commit(files);
    else {
      await symlink("elsewhere", join(remote.work, "built"));
      await remote.commit({ "elsewhere/file": "1" });
    }
    await expect(ready(remote)).rejects.toThrow(said);
  });

  test("can be cleared, for one repository or all; jobs are given no more then", async () => {
    const { ready, environments } = await makePlace();
    const [one, two] = [await makeProject(), await makeProject()];
    const { repoUrl } = (await ready(one.remote)).worktree;
    await ready(two.remote);
    expect(await environments.clear((url) => url === repoUrl)).toMatchObject({ removed: 1, in_use: 0 });
    expect((await ready(one.remote)).setup).toMatchObject({ cache: "cold" });
    expect((await ready(two.remote)).setup).toMatchObject({ cache: "warm" });
    expect(await environments.clear(() => true)).toMatchObject({ removed: 2 });
    expect(await environments.usage()).toEqual([]);
  });

  test("that a stop leaves half done is no entry; the same job makes its own again", async () => {
    const { ready, root, environments } = await makePlace();
    const flag = join(await temporaryDirectory(), "go");
    const { remote } = await makeProject({}, [`test -e ${flag} || { touch deps/half; sleep 1000; }`]);
    const [id, stop] = [randomUUID(), new AbortController()];
    const stopped = ready(remote, { id, aborted: stop.signal });
    stopped.catch(() => undefined);
    await until(async () => {
      const made = join(dirname(root), id, "deps/half");
      return (await lstat(made).catch(() => null)) !== null;
    });
    stop.abort(new Error("shutdown"));
    await expect(stopped).rejects.toThrow("shutdown");
    await writeFile(flag, "");
    // As a killed process leaves them.
    await mkdir(join(root, ".half/tree/worktree/deps"), { recursive: true });
    await chmod(join(root, ".half"), 0o500);
    await environments.start();
    expect((await readdir(root)).filter((name) => name.startsWith("."))).toEqual([]);
    const again = await ready(remote, { id });
    expect(again.setup).toMatchObject({ cache: "cold", waited_seconds: 0 });
    expect(await readdir(join(again.worktree.path, "deps"))).not.toContain("half");
  });
});
