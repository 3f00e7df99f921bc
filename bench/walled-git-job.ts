import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/*
 * `node bench/walled-git-job.ts CHECKOUT MODE`: does all git of a job that changes two of 1,000 files and pushes, with the code of
 * that checkout, and prints milliseconds and how often git was started behind a wall. The first job is not counted.
 */
const [checkout = "", mode = ""] = process.argv.slice(2);
const { createRepos } = await import(join(checkout, "src/repos/create.ts"));
const { createSandbox } = await import(join(checkout, "src/sandbox/sandbox.ts"));

const root = await realpath(await mkdtemp(join(tmpdir(), "svc-bench-git-")));
const remote = join(root, "remote.git");
const work = join(root, "work");
const who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
const git = (cwd: string, ...args: string[]) => execFileSync("git", [...who, ...args], { cwd });
git(root, "init", "--quiet", "--bare", "--initial-branch=main", remote);
git(root, "init", "--quiet", "--initial-branch=main", work);
for (let directory = 0; directory < 50; directory += 1) {
  await mkdir(join(work, `d${directory}`));
  for (let file = 0; file < 20; file += 1)
    await writeFile(join(work, `d${directory}`, `f${file}.txt`), `${directory} ${file}\n`.repeat(50));
}
git(work, "add", "--all");
git(work, "commit", "--quiet", "--message", "first");
git(work, "push", "--quiet", remote, "HEAD:main");

const settings = {
  host: "127.0.0.1",
  podName: "bench",
  reposRoot: join(root, "repos"),
  worktreeRoot: join(root, "worktrees"),
  worktreeSizeExclude: [],
  baseRef: "main",
  allowLocalRepos: true,
  maxRepoBytes: 1e9,
  maxRepoFiles: 1e5,
  repoLockTimeout: 30,
  gitTimeout: 60,
  gitAuthorName: "svc",
  gitAuthorEmail: "svc@localhost",
  gitSigningKey: null,
  gitHost: "github.com",
  gitHostOwners: [],
  gitHostToken: null,
  gitHostAppId: null,
  gitHostAppInstallationId: null,
  gitHostAppPrivateKeyPath: null,
  gitHostAppPrivateKey: null,
  gitHostAppPrivateKeyBase64: null,
};
const { sandbox } = await createSandbox(mode);
let walled = 0;
const confine = (view: unknown): unknown => {
  walled += 1;
  return sandbox.confine?.(view) ?? null;
};
const repos = createRepos({ settings, env: process.env, confine });
const { signal } = new AbortController();

const job = async (id: string): Promise<number> => {
  const began = performance.now();
  const repo = await repos.fetch({ url: remote, jobId: id, signal });
  const made = { repo, worktreeId: id, jobId: id, branch: `service/${id}`, baseRef: "main", signal };
  const worktree = await repos.addWorktree(made);
  await repos.tryPush(worktree, signal);
  for (const name of ["d1/f1.txt", "new.txt"]) await writeFile(join(worktree.path, name), `${id}\n`);
  await repos.inspect(worktree, signal);
  await repos.commitAll(worktree, "work", signal);
  await repos.inspect(worktree, signal);
  await repos.push(worktree, signal);
  await repos.removeWorktree(worktree, signal);
  return performance.now() - began;
};

await job("warm");
walled = 0;
const ms = await job("one");
await rm(root, { recursive: true, force: true });
process.stdout.write(JSON.stringify({ ms, walled }));
