import { chmod, mkdir, readdir, readlink, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../../test/asks.ts";
import { afterFile } from "../../test/cleanup.ts";
import { startService } from "../../test/service.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { keepModes } from "./modes.ts";

const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o7777;

/** What this process has open. */
const openPaths = async (): Promise<string[]> => {
  const descriptors = await readdir("/proc/self/fd");
  return await Promise.all(descriptors.map((each) => readlink(`/proc/self/fd/${each}`).catch(() => "")));
};

type Ready = { ready: boolean; checks: { name: string; status: string; message: string }[] };

test("a running service notices that one of its directories has another mode, says it, and puts it back", async () => {
  const service = await startService();
  const state = join(service.home, ".service");
  const jobs = join(state, "jobs");
  const ready = async () => {
    const { ready, checks } = (await (await fetch(`${service.url}/ready`)).json()) as Ready;
    return { ready, modes: checks.find(({ name }) => name === "modes") };
  };
  expect(await ready()).toMatchObject({ ready: true, modes: { status: "ok" } });
  const inside = (await readdir(jobs, { withFileTypes: true })).filter((entry) => entry.isDirectory());
  expect(inside.length).toBeGreaterThan(0);
  const below = inside.map(({ name }) => join(jobs, name));
  const before = await Promise.all([jobs, ...below].map(modeOf));
  // Last the one that is above the others: nothing in it is reached by its path then.
  for (const path of below) await chmod(path, 0o777);
  await chmod(jobs, 0);
  await until(async () => (await modeOf(jobs)) === before[0], { seconds: 60 });
  await until(async () => (await Promise.all([jobs, ...below].map(modeOf))).join() === before.join());
  const sentence = `The mode of ${jobs} was changed from 700 to 0, and was put back.`;
  await until(() => (service.output.stdout + service.output.stderr).includes(sentence));
  expect(await ready()).toMatchObject({
    ready: true,
    modes: { status: "warning", message: expect.stringContaining("and was put back") as string },
  });
  expect(await asks(service).run({ task: "scenario: noop" })).toMatchObject({ status: "succeeded" });
});

test("directories of a shared file system, of worktrees and clones are kept as well; one that comes later, from then on", async () => {
  const home = await temporaryDirectory();
  const [shared, repos, worktrees, workspaces, jobsDir] = [
    "shared",
    "repos",
    "worktrees",
    "workspaces",
    "jobs",
  ].map((name) => join(home, name)) as [string, string, string, string, string];
  for (const path of [
    shared,
    worktrees,
    workspaces,
    join(jobsDir, "secrets"),
    join(jobsDir, "instances/pod/spool"),
  ])
    await mkdir(path, { recursive: true, mode: 0o750 });
  const told: string[] = [];
  const kept = await keepModes(
    {
      jobsDir,
      reposRoot: repos,
      worktreeRoot: worktrees,
      agentModeWorkspaces: workspaces,
      sharedFsRoot: shared,
    },
    {
      directory: join(jobsDir, "instances/pod"),
      home,
      log: { warn: (words: unknown) => void told.push(String(words)) },
      intervalMs: 20,
    },
  );
  afterFile(() => kept[Symbol.asyncDispose]());
  expect(kept.problem()).toBeNull();
  const below = ["secrets", "instances", "instances/pod", "instances/pod/spool"];
  const existing = [shared, worktrees, workspaces, jobsDir, ...below.map((name) => join(jobsDir, name))];
  for (const path of existing) {
    await chmod(path, 0o2777);
    await until(async () => (await modeOf(path)) === 0o750);
    expect(kept.problem()).toContain(`The mode of ${path} was changed from 750 to 2777, and was put back`);
  }
  expect(told).toHaveLength(existing.length);
  await mkdir(repos, { mode: 0o700 });
  await until(async () => (await openPaths()).includes(repos));
  await chmod(repos, 0o777);
  await until(async () => (await modeOf(repos)) === 0o700);
  await rmdir(repos);
  await chmod(shared, 0o700);
  await until(async () => (await modeOf(shared)) === 0o750);
});
