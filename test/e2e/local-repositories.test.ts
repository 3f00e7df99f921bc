import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { asks } from "../asks.ts";
import { svc } from "../cli/run-svc.ts";
import { git, makeRemote } from "../remote.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";

/* Where there are keys, callers may be on other machines: what only this one has is not theirs. */

const apiKey = "key-of-mallory-0123456789";
const keyed = { SERVICE_API_KEYS: apiKey };

const refused = {
  code: "invalid_repo_url",
  message: expect.stringContaining("SERVICE_ALLOW_LOCAL_REPOS") as string,
};

test("with keys no door takes a repository of this machine, and nothing of it is asked", async () => {
  const asked: string[] = [];
  const server = createServer(({ url = "" }, response) => {
    asked.push(url);
    response.writeHead(418, { "content-type": "text/plain" }).end("internal words");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const remote = await makeRemote();
  const hooks = await makeRemote({ "profiles/ours.yml": "extends: code\n" });
  const service = await startService({
    env: { ...keyed, SERVICE_ALLOW_LOCAL_REPOS: undefined, SERVICE_HOOKS_BUNDLE_URL: hooks.path },
  });
  const { client, url } = service;
  for (const repo_url of [
    remote.path,
    `file://${remote.path}`,
    `${origin}/a`,
    `${origin.replace("127.0.0.1", "localhost")}/a`,
  ]) {
    await expect(client.run_task({ task: "x", repo_url })).rejects.toMatchObject(refused);
    await expect(client.prepare_worktree({ repo_url })).rejects.toMatchObject(refused);
    const repositories = [{ repo_url }];
    const further = client.run_task({ task: "x", repo_url: "https://git.invalid/acme/app", repositories });
    await expect(further).rejects.toMatchObject(refused);
    const answer = await fetch(`${url}/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "x-api-key": apiKey,
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "run_task", arguments: { task: "x", repo_url } },
      }),
    });
    expect(await answer.text()).toContain("SERVICE_ALLOW_LOCAL_REPOS=true");
  }
  expect(asked).toEqual([]);
  // What the operator names is no repository of callers.
  expect((await client.sync_companions({ target: "bundle" })).bundle).toBe("ok");
  expect(await asks(service).run({ task: "scenario: noop {}", profile: "ours" })).toMatchObject({
    status: "succeeded",
  });
});

test("the operator can allow them beside keys, and a follow-up is refused once they are not", async () => {
  const remote = await makeRemote();
  const service = await startService({ env: { ...keyed, SERVICE_ALLOW_LOCAL_REPOS: "true" } });
  const job = await asks(service).run({ task: "scenario: noop {}", repo_url: remote.path });
  expect(job.status).toBe("succeeded");
  await service.stop();
  const again = await startService({
    home: service.home,
    env: { ...keyed, SERVICE_ALLOW_LOCAL_REPOS: undefined },
  });
  const more = again.client.run_task({ task: "scenario: noop {}", session_id: String(job.session_id) });
  await expect(more).rejects.toMatchObject(refused);
});

const shell = (run: string): string => `Go on.\nscenario: shell ${JSON.stringify({ run })}`;

test.each(["without a remote", "with one"])(
  "run, checkout, continue and checkout again work in a checkout %s",
  async (kind) => {
    const service = await startService();
    const { work, path } = await makeRemote();
    const isOwn = kind === "without a remote";
    if (!isOwn) await git(work, "remote", "add", "origin", path);
    if (!isOwn) await git(work, "fetch", "--quiet", "origin");
    const env = { SERVICE_PORT: new URL(service.url).port, HOME: service.home };
    const type = async (...args: string[]) => {
      const { code, stdout, stderr } = await svc(args, { env, cwd: work });
      expect({ args, code, stderr }).toMatchObject({ code: 0 });
      return stdout + stderr;
    };
    const newest = async () => (await service.client.list_jobs({ limit: 1 })).jobs[0];
    await type("run", "Add the file", "--wait");
    await type("checkout");
    const said = await type("continue", "latest", shell("echo more > more.txt"), "--wait");
    const job = await newest();
    expect(job).toMatchObject({ status: "succeeded", outcome: "changed", pr_url: null });
    expect(job?.warnings.join().includes("is checked out in")).toBe(isOwn);
    expect(said).toContain(`svc checkout ${job?.id.slice(0, 8)}`);
    await type("checkout");
    expect(await git(work, "show", "HEAD:more.txt")).toBe("more");
    expect(await git(work, "status", "--porcelain")).toBe("");
    // A branch without commits of the user's own follows a rewritten one.
    await type("continue", "latest", shell("git commit --quiet --amend --message better"), "--wait");
    await type("checkout");
    expect(await git(work, "log", "-1", "--format=%s")).toBe("better");
  },
);

test("a branch that is checked out in a linked worktree, or only while the agent works, is kept as well", async () => {
  const service = await startService({ env: { SERVICE_AGENT_SANDBOX: "off" } });
  const { work } = await makeRemote();
  const first = await asks(service).run({ task: "Do it", repo_url: work });
  expect(await git(work, "rev-parse", `${first.branch}`)).toBe(first.commit_sha);
  await git(work, "worktree", "add", "--quiet", `${work}-linked`, `${first.branch}`);
  const session_id = `${first.session_id}`;
  const linked = await asks(service).run({ task: shell("echo 2 > two.txt"), session_id });
  expect(linked).toMatchObject({ status: "succeeded", outcome: "changed" });
  expect(linked.warnings.join()).toContain("is checked out in");
  await git(work, "worktree", "remove", "--force", `${work}-linked`);
  const script = `echo 3 > three.txt; git -C ${work} switch --quiet ${first.branch}`;
  const late = await asks(service).run({ task: shell(script), session_id });
  expect(late).toMatchObject({ status: "succeeded", outcome: "changed" });
  expect(late.warnings.join()).toContain("is checked out in");
});

test("a further repository whose branch is checked out has its work by svc checkout", async () => {
  const service = await startService({ env: { SERVICE_AGENT_SANDBOX: "off" } });
  const [{ path: repo_url }, { work }] = [await makeRemote(), await makeRemote()];
  const changes = (file: string) => shell(`for d in ../*-work; do echo 1 > $d/${file}; done`);
  const asked = { repo_url, repositories: [{ repo_url: work, base_ref: "" }] };
  const first = await asks(service).run({ task: changes("one.txt"), ...asked });
  expect(first.repositories).toMatchObject([{ cached_clone: null }]);
  await git(work, "switch", "--quiet", `${first.branch}`);
  const session_id = `${first.session_id}`;
  const second = await asks(service).run({ task: changes("two.txt"), session_id });
  expect(second.warnings).toEqual([expect.stringMatching(/^work: The branch .* is checked out in/)]);
  const env = { SERVICE_PORT: new URL(service.url).port, HOME: service.home };
  const { code, stderr } = await svc(["checkout", second.id], { env, cwd: work });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(await git(work, "show", "HEAD:two.txt")).toBe("1");
});

test("svc diff of a cancelled job shows the repository that changed beside one that did not", async () => {
  const service = await startService();
  const [{ path: repo_url }, lib] = [await makeRemote(), await makeRemote()];
  const asked = { repo_url, repositories: [{ repo_url: lib.path, base_ref: "" }] };
  const { id } = (await service.client.run_task({ task: shell("echo 1 > x.txt; sleep 600"), ...asked })).job;
  const now = async () => (await service.client.get_job({ job_id: id })).job;
  const change = () => service.client.get_diff({ job_id: id, format: "names" }).catch(() => null);
  await until(async () => ((await change())?.files.length ?? 0) > 0);
  await service.client.cancel_job({ job_id: id });
  await until(async () => (await now()).salvage_ref);
  const env = { SERVICE_PORT: new URL(service.url).port, HOME: service.home };
  for (const when of ["before a cleanup", "after one"]) {
    const { code, stdout } = await svc(["diff", id, "--name-only"], { env });
    expect({ when, code, stdout }).toEqual({ when, code: 0, stdout: "x.txt\n" });
    await service.client.cleanup_worktrees({ paths: `${(await now()).worktree_path}`, force: true });
  }
});

test("a branch moved behind its base, or back to it, is no change, and the job says to revert", async () => {
  const service = await startService();
  const remote = await makeRemote();
  await git(remote.work, "commit", "--quiet", "--allow-empty", "--message=Bad");
  await git(remote.work, "push", "--quiet", remote.path, "HEAD:main");
  const repo_url = remote.path;
  const behind = await asks(service).run({ task: shell("git reset --quiet --hard HEAD~1"), repo_url });
  const first = await asks(service).run({ task: "Do it", repo_url });
  const session_id = `${first.session_id}`;
  const back = await asks(service).run({ task: shell("git reset --quiet --hard HEAD~1"), session_id });
  for (const job of [behind, back]) {
    expect(job).toMatchObject({ status: "succeeded", outcome: "no_change", pr_url: null });
    expect(job.warnings.join()).toContain("git revert");
  }
  expect(await remote.branches()).toEqual(["main", `${first.branch}`]);
});
