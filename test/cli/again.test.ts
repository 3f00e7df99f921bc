import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { startSvc, svc } from "./run-svc.ts";
import { sampleJob } from "./sample-job.ts";
import { json, stubService } from "./stub-service.ts";

let service: Service;
let env: Record<string, string>;

beforeAll(async () => {
  service = await startService();
  env = { SERVICE_PORT: new URL(service.url).port };
});

const ask = () => asks(service);
/** What `-` stands for. */
const lastJob = (home: string) => readFile(join(home, ".service", "last-job"), "utf8");
const idOf = (stdout: string): string => stdout.split("\n")[0] ?? "";

test("retry submits the task, repository, base, profile and options again", async () => {
  const remote = await makeRemote();
  const options = { model: "opus", max_turns: 5, title: "Fix", branch: "fix/it" };
  const first = await ask().run({ task: "Do it", repo_url: remote.path, profile: "code", options });
  const besides = ["--recurse-submodules", "--lfs"];
  const { code, stdout, stderr } = await svc(["retry", first.id, "--max-turns", "6", ...besides, "-w"], {
    env,
  });
  expect(code).toBe(0);
  const second = await ask().get(idOf(stdout));
  expect(second.id).not.toBe(first.id);
  for (const key of ["task", "repo_url", "base_ref", "profile"] as const)
    expect(second[key]).toBe(first[key]);
  expect(second.options).toEqual({
    ...first.options,
    max_turns: 6,
    branch: null,
    submodules: "recursive",
    lfs: true,
  });
  expect(stderr).toMatch(
    /The branch fix\/it is that of the first job[^]*profile code \(requested\), model opus/,
  );
});

test("retry refuses what still runs, and what had files that are not named again; the editor begins with the task", async () => {
  const running = await ask().submit({ task: "scenario: hang" });
  expect(await svc(["retry", running.id], { env })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`svc wait ${running.id}`),
  });
  await service.client.cancel_job({ job_id: running.id });
  const edited = await svc(["retry", running.id, "-e"], {
    env: { ...env, GIT_EDITOR: "sed -i s/hang/noop/" },
  });
  expect((await ask().get(idOf(edited.stdout))).task).toBe("scenario: noop");
  const files = [{ name: "a.txt", content: "x" }];
  const job = await ask().run({ task: "scenario: noop", options: { files } });
  expect(await svc(["retry", job.id], { env })).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/files \(a\.txt\).*--attach/),
  });
});

test("continue goes on in the agent's session, worktree and branch, also when the worktree was removed", async () => {
  const remote = await makeRemote();
  const options = { model: "opus" };
  const first = await ask().run({ task: "scenario: remember", repo_url: remote.path, options });
  const goOn = async (): Promise<string> => {
    const { stdout } = await svc(["continue", first.id, "scenario: remember", "-w"], { env });
    const { session_id, branch, worktree_id, output, options: own } = await ask().get(idOf(stdout));
    expect({ session_id, branch, worktree_id }).toEqual({
      session_id: first.session_id,
      branch: first.branch,
      worktree_id: first.worktree_id,
    });
    expect(own.model).toBe("opus");
    return String(output);
  };
  expect(await goOn()).toMatch(/\b1\b/);
  const paths = String(first.worktree_path);
  expect(await service.client.cleanup_worktrees({ paths, force: true })).toMatchObject({ removed: 1 });
  expect(await goOn()).toMatch(/\b2\b/);
});

test("retry of a job that continued one continues it again", async () => {
  const remote = await makeRemote();
  const first = await ask().run({ task: "Begin", repo_url: remote.path });
  const second = await ask().run({ task: "Go on", session_id: String(first.session_id) });
  const { stdout } = await svc(["retry", second.id, "-w"], { env });
  expect(await ask().get(idOf(stdout))).toMatchObject({ task: "Go on", session_id: first.session_id });
});

test("logs shows what happened so far and ends, and with -f goes on until the job has ended", async () => {
  const { id } = await ask().submit({ task: 'scenario: hang {"after": 2}' });
  await ask().speaking(id);
  const soFar = await svc(["logs", id], { env });
  expect(soFar).toMatchObject({ code: 0, stdout: expect.stringMatching(/agent started/) });
  const follower = startSvc(["logs", id, "-f"], { env });
  await until(() => follower.output.stdout.includes("agent started"));
  const waiter = svc(["wait", id], { env });
  await service.client.cancel_job({ job_id: id });
  expect(await follower.ended).toMatchObject({ code: 1, stdout: expect.stringContaining("cancelled") });
  expect(await waiter).toMatchObject({ code: 1, stdout: expect.stringContaining(`${id}  cancelled`) });
  const events = (await svc(["logs", id, "--json"], { env })).stdout.trimEnd().split("\n");
  expect(JSON.parse(events.at(-1) ?? "")).toMatchObject({ type: "stage", stage: "ended" });
});

test("wait ends with 0 only if all have succeeded, and names an unknown one at once", async () => {
  const jobs = await Promise.all(
    ["noop", "noop", "error-result"].map((name) => ask().submit({ task: `scenario: ${name}` })),
  );
  const [one = "", two = "", failed = ""] = jobs.map(({ id }) => id);
  const home = await temporaryDirectory();
  const good = await svc(["wait", one, two], { env: { ...env, HOME: home } });
  expect(good.code).toBe(0);
  expect(await lastJob(home)).toBe(`${two}\n`);
  for (const id of [one, two]) expect(good.stdout).toContain(`${id}  succeeded`);
  const bad = await svc(["wait", one, failed], { env });
  expect(bad).toMatchObject({ code: 1, stdout: expect.stringContaining(`${failed}  failed (agent_error)`) });
  const { id } = await ask().submit({ task: "scenario: hang" });
  expect(await svc(["wait", id, "nosuch"], { env })).toMatchObject({ code: 1 });
  await service.client.cancel_job({ job_id: id });
});

test("wait is interrupted also before the service has answered", async () => {
  const stub = await stubService({ "GET /jobs/abcd": () => undefined });
  const waiting = startSvc(["wait", "abcd"], { env: { SERVICE_PORT: String(stub.port) } });
  await until(() => stub.requests.length === 1);
  waiting.child.kill("SIGINT");
  expect(await waiting.ended).toEqual({ code: 130, stdout: "", stderr: "" });
});

test("open hands the pull request or the page to the browser, and prints its URL where there is none", async () => {
  const url = "https://github.com/acme/app/pull/7";
  const [job, bare] = [sampleJob({ pr_url: url }), { ...sampleJob(), id: "bare" }];
  const stub = await stubService({
    [`GET /jobs/${job.id}`]: json(200, { success: true, job }),
    "GET /jobs/bare": json(200, { success: true, job: bare }),
  });
  const at = { SERVICE_PORT: String(stub.port) };
  expect(await svc(["open", job.id], { env: at })).toMatchObject({ code: 0, stdout: `${url}\n` });
  const directory = await temporaryDirectory();
  const [browser, seen] = [join(directory, "browser"), join(directory, "seen")];
  await writeFile(browser, `#!/bin/sh\necho "$1" > ${seen}.new && mv ${seen}.new ${seen}\n`);
  await chmod(browser, 0o755);
  const opened = await svc(["open", job.id], { env: { ...at, BROWSER: browser } });
  expect(opened).toMatchObject({ code: 0, stdout: "", stderr: `Opened ${url}\n` });
  await until(async () => (await readFile(seen, "utf8").catch(() => "")) === `${url}\n`);
  const page = `http://127.0.0.1:${stub.port}/ui/jobs`;
  for (const [args, shown] of [
    [["bare"], `${page}/bare`],
    [["--page", job.id], `${page}/${job.id}`],
    [[], page],
  ] as const)
    expect(await svc(["open", ...args], { env: at })).toMatchObject({ code: 0, stdout: `${shown}\n` });
  await svc(["open", "bare"], { env: { ...at, HOME: directory } });
  expect(await lastJob(directory)).toBe("bare\n");
});

test("continue --deliver delivers what is there without an agent, and takes no task", async () => {
  const remote = await makeRemote();
  const first = await ask().run({ task: "Do it", repo_url: remote.path, profile: "code" });
  const { code, stdout } = await svc(["continue", first.id, "--deliver", "-w"], { env });
  expect(code).toBe(0);
  const second = await ask().get(idOf(stdout));
  expect(second).toMatchObject({ task: "Do it", outcome: "changed", branch: first.branch, num_turns: null });
  expect(second.stages.map(({ stage }) => stage)).not.toContain("agent_started");
  expect(await svc(["continue", first.id, "More", "--deliver"], { env })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--deliver starts no agent"),
  });
});
