import { execFile } from "node:child_process";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { asks } from "../asks.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, svcProgram, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { svc } from "./run-svc.ts";

const secret = "a-token-of-the-git-host";

let service: Service;
let remote: Awaited<ReturnType<typeof makeRemote>>;
let ended: Job;
let running: Job;

beforeAll(async () => {
  service = await startService({ env: { GIT_HOST_TOKEN: secret } });
  remote = await makeRemote({ "README.md": "# Test\n", "other.txt": "other\n" });
  const { submit, run } = asks(service);
  running = await submit({ task: 'scenario: hang {"after": 1, "dirt": true}', repo_url: remote.path });
  ended = await run({
    task: 'scenario: work {"content": "tab\\t\\u001b]0;title\\u0007 end"}',
    repo_url: remote.path,
  });
});

const env = () => {
  const { hostname, port } = new URL(service.url);
  return { SERVICE_HOST: hostname, SERVICE_PORT: port };
};

const call = (args: string[], cwd = "/") => svc(args, { cwd, env: env() });

/** A user's clone of the remote. */
const clone = async (url = remote.path): Promise<string> => {
  const directory = join(await temporaryDirectory(), "clone");
  await git("/", "clone", "--quiet", "--branch=main", url, directory);
  return directory;
};

test("svc diff shows what a running job has changed so far, and svc apply brings it as uncommitted edits", async () => {
  await until(async () => (await call(["diff", running.id, "--name-only"])).stdout === "dirt.txt\n", {
    what: "the agent to write",
  });
  expect((await call(["diff", running.id, "--stat"])).stdout).toMatch(/^ dirt.txt \| 1 \+\n 1 file changed/);
  const mine = await clone();
  await appendFile(join(mine, "README.md"), "mine\n");
  expect(await call(["apply", running.id], join(mine))).toMatchObject({
    code: 0,
    stdout: "Applied 1 file, +1 −0; git status shows them\n",
  });
  expect(await git(mine, "status", "--porcelain")).toBe(" M README.md\n?? dirt.txt");
  expect(await call(["apply", running.id], mine)).toEqual({
    code: 0,
    stdout: "",
    stderr: `The change of job ${running.id} is already in this checkout\n`,
  });
  const { code, stderr } = await call(["checkout", running.id], mine);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringMatching(/is not finished\. svc apply \S+ brings the change/) as unknown,
  });
});

test("piped, svc diff is the patch of the branch that the job pushed", async () => {
  const { stdout, stderr, code } = await call(["diff", ended.id]);
  const pushed = await git(remote.path, "diff", "--full-index", "main", String(ended.branch));
  expect({ stdout, stderr, code }).toEqual({ stdout: `${pushed}\n`, stderr: "", code: 0 });
  // Without its worktree the service fetches the branch.
  await service.client.cleanup_worktrees({ paths: ended.id, force: true });
  expect((await call(["diff", ended.id])).stdout).toBe(stdout);
});

test("on a terminal svc diff is coloured, in the pager, and what the agent wrote cannot steer it", async () => {
  const line = [...svcProgram, "diff", ended.id].join(" ");
  const show = async (more: Record<string, string>): Promise<string> => {
    const variables = {
      PATH: String(process.env["PATH"]),
      HOME: "/nonexistent",
      TERM: "xterm",
      LANG: "C.UTF-8",
    };
    const options = { env: { ...variables, ...env(), ...more } };
    return (await promisify(execFile)("script", ["-qec", line, "/dev/null"], options)).stdout;
  };
  const shown = await show({ SVC_PAGER: "sed s/^/paged:/" });
  expect(shown).toContain("paged:\u{1b}[32m+tab  \u{fffd}]0;title\u{fffd} end\u{1b}[39m");
  expect(shown).toContain("\u{1b}[1mdiff --git a/agent-output.txt b/agent-output.txt\u{1b}[22m");
  expect(await show({ SVC_PAGER: "no-such-pager", NO_COLOR: "1" })).toMatch(/^\+tab /m);
});

test("svc checkout switches to the job's branch, follows it, and leaves the user's commits and edits", async () => {
  const mine = await clone();
  const branch = String(ended.branch);
  const checkout = (): ReturnType<typeof call> => call(["checkout", ended.id], mine);
  // Also where the user's clone reaches the remote by another address.
  await git(mine, "remote", "rename", "origin", "upstream");
  await git(mine, "remote", "set-url", "upstream", relative(mine, remote.path));
  await writeFile(join(mine, "agent-output.txt"), "mine\n");
  const refused = await checkout();
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("would be overwritten") as unknown,
  });
  expect(await readFile(join(mine, "agent-output.txt"), "utf8")).toBe("mine\n");
  const inTheWay = {
    code: 1,
    stderr: expect.stringMatching(/agent-output\.txt.*commit or stash them/s) as unknown,
  };
  expect(await call(["apply", ended.id], mine)).toMatchObject(inTheWay);
  await git(mine, "add", "agent-output.txt");
  await writeFile(join(mine, "agent-output.txt"), "mine, not staged\n");
  expect(await call(["apply", ended.id], mine)).toMatchObject(inTheWay);
  await git(mine, "add", "agent-output.txt");
  expect(await call(["apply", ended.id], mine)).toMatchObject({
    code: 1,
    stderr:
      "svc: Applied with conflicts in agent-output.txt: settle the marked lines, then git add the files\n",
  });
  await git(mine, "reset", "--quiet", "--hard");

  expect(await checkout()).toMatchObject({ code: 0, stdout: `On branch ${branch}, from upstream\n` });
  expect(await git(mine, "rev-parse", "HEAD")).toBe(ended.commit_sha);
  expect(await git(mine, "rev-parse", "--abbrev-ref", "@{upstream}")).toBe(`upstream/${branch}`);

  await git(mine, "switch", "--quiet", "main");
  await git(mine, "branch", "--quiet", "--force", branch, "main");
  expect(await checkout()).toMatchObject({ code: 0 });
  expect(await git(mine, "rev-parse", "HEAD")).toBe(ended.commit_sha);

  await git(mine, "commit", "--quiet", "--allow-empty", "--message=Mine");
  const own = await git(mine, "rev-parse", "HEAD");
  expect(await checkout()).toMatchObject({ code: 0 });
  expect(await git(mine, "rev-parse", "HEAD")).toBe(own);

  await git(mine, "reset", "--quiet", "--hard", "main");
  await git(mine, "commit", "--quiet", "--allow-empty", "--message=Mine");
  expect(await checkout()).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("Rename yours") as unknown,
  });
});

test("svc checkout refuses a checkout of another repository, and names both", async () => {
  const other = await makeRemote();
  const { code, stderr } = await call(["checkout", ended.id], await clone(other.path));
  expect(code).toBe(2);
  expect(stderr).toContain(`worked on ${remote.path}`);
  expect(stderr).toContain(`is of ${other.path}`);
  expect(await call(["checkout", ended.id])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("There is no checkout in /") as unknown,
  });
});

test("the work of a failed job is shown from where it was saved, and checked out from there", async () => {
  const job = await asks(service).run({
    task: 'scenario: error-result {"dirt": true}',
    repo_url: remote.path,
  });
  expect(JSON.parse((await call(["diff", job.id, "--json"])).stdout)).toMatchObject({
    source: "salvage",
    diff_stat: { files: 1, insertions: 1, deletions: 0 },
  });
  const mine = await clone();
  expect(await call(["checkout", job.id], mine)).toMatchObject({ code: 0 });
  expect(await git(mine, "diff", "--name-only", "main", String(job.branch))).toBe("dirt.txt");
});

test("a secret in the change is masked, and such a patch is not applied", async () => {
  const job = await asks(service).run({
    task: `scenario: work {"content": "token = ${secret}"}`,
    repo_url: remote.path,
  });
  expect((await call(["diff", job.id])).stdout).toContain("+token = ***");
  expect(await call(["apply", job.id], await clone())).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("secrets in it are masked") as unknown,
  });
});

test("the change is the same when its branch has been merged and deleted", async () => {
  const before = (await call(["diff", ended.id])).stdout;
  await git(remote.path, "update-ref", "refs/heads/main", String(ended.commit_sha));
  await git(remote.path, "branch", "--quiet", "-D", String(ended.branch));
  // Its fetch tells the service.
  await asks(service).run({ task: "scenario: commit-nothing", repo_url: remote.path });
  await service.client.cleanup_worktrees({ paths: ended.id, force: true });
  expect((await call(["diff", ended.id])).stdout).toBe(before);
  expect(before).toContain("+tab");
});
