import { execFile } from "node:child_process";
import { chmod, mkdir, readFile, realpath, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { git as plainGit, makeRemote } from "../../test/remote.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { git, GitError } from "./git.ts";
import { findMarked } from "../../test/processes.ts";

const never = new AbortController().signal;
const call = { env: process.env, signal: never, timeoutSeconds: 20 };

/** A directory whose `git` is this shell script. */
const fakeGit = async (script: string): Promise<NodeJS.ProcessEnv> => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, "git"), `#!/bin/sh\n${script}\n`);
  await chmod(join(directory, "git"), 0o755);
  return { PATH: `${directory}:${process.env["PATH"]}` };
};

test("git sees the listed variables only, and no configuration of user or machine", async () => {
  const env = {
    ...(await fakeGit("env")),
    GIT_HOST_TOKEN: "canary-token",
    GIT_DIR: "/somewhere",
    https_proxy: "http://proxy:1",
    HOME: "/root",
  };
  const { stdout } = await git([], { ...call, env, jobId: "job-1" });
  expect(stdout).not.toContain("canary");
  expect(stdout).not.toMatch(/^GIT_DIR=/m);
  expect(stdout).toMatch(/^https_proxy=http:\/\/proxy:1$/m);
  expect(stdout).toMatch(/^HOME=\/nonexistent$/m);
  expect(stdout).toMatch(/^GIT_CONFIG_GLOBAL=\/dev\/null$/m);
  expect(stdout).toMatch(/^SERVICE_JOB_ID=job-1$/m);
});

test("a repository at the root of the file system, where an agent of root can leave one, is not obeyed", async () => {
  const [root, remote, thief] = [
    await temporaryDirectory(),
    await makeRemote(),
    await makeRemote({ "thief.txt": "" }),
  ];
  await plainGit(root, "init", "--quiet");
  await plainGit(root, "config", `url.${thief.path}.insteadOf`, remote.path);
  const program = `
    import { git } from ${JSON.stringify(join(import.meta.dirname, "git.ts"))};
    const call = { env: process.env, signal: new AbortController().signal, timeoutSeconds: 20 };
    console.log((await git(["ls-remote", ${JSON.stringify(remote.path)}, "refs/heads/main"], call)).stdout);`;
  const seen = ["/usr", "/etc", "/bin", "/lib", "/lib64", join(import.meta.dirname, "../..")];
  const paths = [...seen, await realpath(process.execPath), dirname(remote.path), dirname(thief.path)];
  const view = ["--bind", root, "/", "--proc", "/proc", "--dev", "/dev"];
  const shown = paths.flatMap((path) => ["--ro-bind-try", path, path]);
  const command = [process.execPath, "--input-type=module", "-e", program];
  const { stdout } = await promisify(execFile)("bwrap", [...view, ...shown, ...command]);
  expect(stdout).toContain(await plainGit(remote.path, "rev-parse", "main"));
});

test("an abort ends git and everything that it started", async () => {
  const jobId = `git-test-${process.pid}`;
  const env = await fakeGit(`trap "" TERM; sleep 300 & sleep 300`);
  const stop = new AbortController();
  const running = git(["fetch"], { ...call, env, jobId, signal: stop.signal });
  const marker = { name: "SERVICE_JOB_ID", value: jobId };
  await until(async () => (await findMarked(marker)).length === 3);
  stop.abort(new Error("cancelled"));
  await expect(running).rejects.toThrow("cancelled");
  expect(await findMarked(marker)).toEqual([]);
});

test("git that does not end in time is ended, and the error says so", async () => {
  const env = await fakeGit("sleep 300");
  const running = git(["fetch"], { ...call, env, timeoutSeconds: 0.1 });
  await expect(running).rejects.toMatchObject({
    ended: "timed_out",
    message: "git fetch did not finish within 0.1 s",
  });
});

test("a process that left the group cannot block the call with its copy of the pipes", async () => {
  const directory = await temporaryDirectory();
  const env = await fakeGit(`setsid sh -c 'echo $$ > ${directory}/pid; exec sleep 300' & echo done`);
  expect((await git([], { ...call, env })).stdout).toBe("done\n");
  process.kill(Number(await readFile(join(directory, "pid"), "utf8")), "SIGKILL");
});

test("endless output ends git instead of filling the memory", async () => {
  const env = await fakeGit("yes");
  await expect(git(["log"], { ...call, env, maxOutputBytes: 100_000 })).rejects.toMatchObject({
    ended: "too_much_output",
  });
});

test("an error is bounded and contains neither credentials of a URL nor a secret", async () => {
  const env = await fakeGit(
    `for i in $(seq 5000); do echo "fatal: https://user:hunter2@host/x canary-token" >&2; done; exit 128`,
  );
  const error = await git(["fetch"], { ...call, env, secrets: ["canary-token"] }).catch(
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(GitError);
  expect(String(error)).not.toMatch(/hunter2|canary-token/);
  expect(String(error)).toContain("fatal: https://host/x ***");
  expect(String(error).length).toBeLessThan(4200);
});

test("without git, the error says what to install", async () => {
  const env = { PATH: await temporaryDirectory() };
  await expect(git(["fetch"], { ...call, env })).rejects.toThrow("git could not be started: install it");
});

test("no hook, file system monitor or pager of a repository is run", async () => {
  const directory = await temporaryDirectory();
  const dir = join(directory, "r");
  const trace = join(directory, "trace");
  await git(["init", "--quiet", dir], call);
  const hook = `#!/bin/sh\necho "$0" >> ${trace}\n`;
  await mkdir(join(dir, ".git/hooks"), { recursive: true });
  for (const name of ["pre-commit", "post-commit", "post-checkout", "fsmonitor-watchman"]) {
    await writeFile(join(dir, ".git/hooks", name), hook, { mode: 0o755 });
  }
  const path = join(dir, ".git/hooks/pre-commit");
  await writeFile(
    join(dir, ".git/config"),
    `[core]\n\tfsmonitor = ${path}\n\tpager = ${path}\n\teditor = ${path}\n\taskPass = ${path}\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = ${path}\n[user]\n\tname = a\n\temail = a@b\n`,
  );
  await writeFile(join(dir, "file"), "x");
  await git(["add", "file"], { ...call, cwd: dir });
  await git(["commit", "--quiet", "--message", "x"], { ...call, cwd: dir });
  await git(["status"], { ...call, cwd: dir });
  await git(["log"], { ...call, cwd: dir });
  await expect(readFile(trace, "utf8")).rejects.toThrow("ENOENT");
});
