import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { processesMarked } from "../processes.ts";
import { codeOf, slowGit, worktreeAsks } from "./worktree-world.ts";

let service: Service;
let remote: Awaited<ReturnType<typeof makeRemote>>;

beforeAll(async () => {
  service = await startService();
  remote = await makeRemote();
});

const clean = async (input: Parameters<Service["client"]["cleanup_worktrees"]>[0]) =>
  service.client.cleanup_worktrees(input);

test("a worktree is removed by its path or its id, and get_worktree reports so afterwards", async () => {
  const { prepare, get, list } = worktreeAsks(service);
  const [a, b] = [await prepare(remote.path), await prepare(remote.path)];
  const { removed, results, dry_run } = await clean({ paths: `${a.path}/, ${b.worktree_id}` });
  expect({ removed, dry_run }).toEqual({ removed: 2, dry_run: false });
  for (const [index, { path, worktree_id }] of [a, b].entries()) {
    expect(results[index]).toMatchObject({
      path,
      worktree_id,
      success: true,
      error: null,
      salvage_ref: null,
    });
    expect(results[index]?.size_bytes).toBeGreaterThan(0);
    expect(existsSync(path)).toBe(false);
    expect(await get(worktree_id)).toMatchObject({ status: "removed", size_bytes: null, pushed: null });
    await expect(service.client.run_task({ task: "x", worktree_id })).rejects.toMatchObject({
      code: "worktree_not_found",
      message: expect.stringContaining("was removed") as string,
    });
  }
  expect((await list()).filter(({ status }) => status === "removed")).toEqual([]);
  const again = await clean({ paths: a.path });
  expect(again).toMatchObject({
    removed: 0,
    results: [{ success: true, removed: false, worktree_id: a.worktree_id, size_bytes: 0 }],
  });
});

test("saying neither which nor how old is refused", async () => {
  await expect(clean({})).rejects.toMatchObject({ code: "invalid_request", status: 400 });
  await expect(clean({ paths: " , " })).rejects.toMatchObject({ code: "invalid_request" });
  await expect(clean({ max_age_hours: -1 })).rejects.toMatchObject({ code: "invalid_request" });
});

test("a dry run reports what would be removed and removes nothing", async () => {
  const { prepare } = worktreeAsks(service);
  const { path, worktree_id } = await prepare(remote.path);
  const told = await clean({ paths: path, dry_run: true });
  expect(told).toMatchObject({ removed: 1, dry_run: true, results: [{ worktree_id, success: true }] });
  await writeFile(join(path, "work.txt"), "work\n");
  const refused = await clean({ paths: path, dry_run: true });
  expect(refused.removed).toBe(0);
  expect(refused.results[0]?.error).toContain("not pushed");
  const forced = await clean({ paths: path, dry_run: true, force: true });
  expect(forced.results).toMatchObject([
    { success: true, salvage_ref: `refs/service/salvage/${worktree_id}` },
  ]);
  expect(existsSync(join(path, "work.txt"))).toBe(true);
});

test("only those that are older than asked are removed by age", async () => {
  const home = await temporaryDirectory();
  const first = await startService({ home });
  const [old, young] = [
    await worktreeAsks(first).prepare(remote.path),
    await worktreeAsks(first).prepare(remote.path),
  ];
  await first.stop();
  const file = join(home, ".service", "jobs", "worktrees", `${old.worktree_id}.json`);
  const record = JSON.parse(await readFile(file, "utf8")) as object;
  const yesterday = new Date(Date.now() - 25 * 3_600_000).toISOString();
  await writeFile(file, JSON.stringify({ ...record, created_at: yesterday }));
  const again = await startService({ home });
  expect((await worktreeAsks(again).get(old.worktree_id)).age_hours).toBeCloseTo(25, 1);
  const { removed, results } = await again.client.cleanup_worktrees({ max_age_hours: 24 });
  expect({ removed, ids: results.map(({ worktree_id }) => worktree_id) }).toEqual({
    removed: 1,
    ids: [old.worktree_id],
  });
  expect([existsSync(old.path), existsSync(young.path)]).toEqual([false, true]);
});

describe("work that is not pushed", () => {
  test("keeps its worktree; with force it is saved first", async () => {
    const { prepare, inCache, get } = worktreeAsks(service);
    const { path, worktree_id, branch } = await prepare(remote.path);
    await writeFile(join(path, "work.txt"), "not committed\n");
    const refused = await clean({ paths: path });
    expect(refused).toMatchObject({ removed: 0, results: [{ success: false, worktree_id }] });
    expect(refused.results[0]?.error).toContain("not pushed");
    await git(path, "commit", "--quiet", "--allow-empty", "--message=Local");
    await writeFile(join(path, "more.txt"), "staged\n");
    await git(path, "add", "more.txt");
    const { removed, results } = await clean({ paths: path, force: true });
    const ref = `refs/service/salvage/${worktree_id}`;
    expect({ removed, ref: results[0]?.salvage_ref }).toEqual({ removed: 1, ref });
    expect(await inCache("show", `${ref}:work.txt`, `${ref}:more.txt`)).toBe("not committed\nstaged");
    expect(
      await inCache("log", "--format=%s", `main..${branch}`).catch(() =>
        inCache("log", "--format=%s", "-1", branch),
      ),
    ).toContain("Local");
    expect(await get(worktree_id)).toMatchObject({ status: "removed", salvage_ref: ref });
    expect(existsSync(path)).toBe(false);
  });

  test("of a job is named in the job", async () => {
    const { inCache } = worktreeAsks(service);
    const ask = asks(service);
    const job = await ask.run({ task: "x", repo_url: remote.path });
    await writeFile(join(String(job.worktree_path), "later.txt"), "by hand\n");
    const { results } = await clean({ paths: job.id, force: true });
    const ref = `refs/service/salvage/${job.id}`;
    expect(results).toMatchObject([{ worktree_id: job.id, success: true, salvage_ref: ref }]);
    expect((await ask.get(job.id)).salvage_ref).toBe(ref);
    expect(await inCache("show", `${ref}:later.txt`)).toBe("by hand");
  });
});

describe("a worktree that is in use", () => {
  test("is left in place; with force its job is cancelled, its work saved, its agent ended", async () => {
    const { prepare, inCache } = worktreeAsks(service);
    const ask = asks(service);
    const { path, worktree_id } = await prepare(remote.path);
    const task = 'scenario: paced {"steps": 200, "ms": 50}';
    const running = await ask.speaking((await ask.submit({ task, worktree_id })).id);
    const waiting = await ask.submit({ task: "x", worktree_id });
    const refused = await clean({ paths: path });
    expect(refused.removed).toBe(0);
    expect(refused.results[0]?.error).toContain(`in use by job ${running.id}`);
    expect((await ask.get(running.id)).status).toBe("running");
    const told = await clean({ paths: path, force: true, dry_run: true });
    expect(told.results).toMatchObject([{ success: true, cancelled_jobs: [running.id, waiting.id] }]);
    expect((await ask.get(running.id)).status).toBe("running");
    const { removed, results } = await clean({ paths: path, force: true });
    const cancelled_jobs = [running.id, waiting.id];
    expect(results).toMatchObject([{ success: true, removed: true, cancelled_jobs }]);
    expect(removed).toBe(1);
    expect(existsSync(path)).toBe(false);
    for (const id of cancelled_jobs) {
      const error = "Cancelled: its worktree was removed with force";
      expect(await ask.get(id)).toMatchObject({ status: "cancelled", error });
    }
    expect(processesMarked(running.id)).toEqual([]);
    const saved = await inCache("ls-tree", "--name-only", String((await ask.get(running.id)).salvage_ref));
    expect(saved.split("\n").length).toBeGreaterThan(1);
  });

  test("is not removed by its age either", async () => {
    const { prepare } = worktreeAsks(service);
    const ask = asks(service);
    const { path, worktree_id } = await prepare(remote.path);
    const job = await ask.submit({ task: "scenario: hang", worktree_id });
    await ask.when(job.id, ({ pid }) => pid !== null, "to run");
    const refused = await clean({ paths: path, max_age_hours: 876_000 });
    expect(refused.results).toMatchObject([{ success: false }]);
    await service.client.cancel_job({ job_id: job.id });
  });

  test("because it is being prepared is left; with force the preparation is stopped", async () => {
    const home = await temporaryDirectory();
    const { path, hold } = await slowGit(home);
    await writeFile(hold, "");
    const slow = await startService({ home, env: { PATH: path } });
    const asked = codeOf(slow.client.prepare_worktree({ repo_url: remote.path }));
    const { worktree_id } = await until(async () => (await worktreeAsks(slow).list())[0], {
      what: "the list",
    });
    const refused = await slow.client.cleanup_worktrees({ paths: worktree_id });
    expect(refused.results[0]?.error).toContain("being prepared");
    const { removed } = await slow.client.cleanup_worktrees({ paths: worktree_id, force: true });
    expect(removed).toBe(1);
    expect(await asked).toBe("worktree_failed");
    expect((await worktreeAsks(slow).get(worktree_id)).status).toBe("removed");
  });
});

test("of several cleanups at the same time each worktree is removed by one", async () => {
  const { prepare } = worktreeAsks(service);
  const worktrees = await Promise.all(Array.from({ length: 5 }, () => prepare(remote.path)));
  const paths = worktrees.map(({ path }) => path).join(",");
  const answers = await Promise.all(Array.from({ length: 4 }, () => clean({ paths })));
  expect(answers.map(({ removed }) => removed).reduce((a, b) => a + b)).toBe(5);
  expect(worktrees.filter(({ path }) => existsSync(path))).toEqual([]);
});

test("a job that is submitted while its worktree is removed runs in it or is refused, and never in half of one", async () => {
  const { prepare } = worktreeAsks(service);
  const ask = asks(service);
  const seen: string[] = [];
  for (let round = 0; round < 8; round += 1) {
    const { path, worktree_id } = await prepare(remote.path);
    const [cleanup, submitted] = await Promise.all([
      clean({ paths: path }),
      ask.submit({ task: 'scenario: work {"file": "one.txt"}', worktree_id }).catch(() => null),
    ]);
    const job = submitted === null ? null : await ask.ended(submitted.id);
    const files = existsSync(path) ? await git(path, "ls-files") : "removed";
    seen.push(`${cleanup.removed} removed, job ${job?.status ?? "refused"}, ${files.replace("\n", " ")}`);
  }
  const right = [
    "1 removed, job refused, removed",
    "0 removed, job succeeded, README.md one.txt",
    // It had ended before the cleanup came to its turn.
    "1 removed, job succeeded, removed",
  ];
  expect(seen.filter((outcome) => !right.includes(outcome))).toEqual([]);
});

test("what is not ours is never touched, neither a directory, nor a link, nor a path elsewhere", async () => {
  const root = join(service.home, ".service", "worktrees");
  const elsewhere = await temporaryDirectory();
  await writeFile(join(elsewhere, "precious.txt"), "mine\n");
  await mkdir(join(root, "foreign"));
  await writeFile(join(root, "foreign", "mine.txt"), "mine\n");
  await symlink(elsewhere, join(root, "11111111-1111-4111-8111-111111111111"));
  const old = new Date(0);
  await utimes(join(root, "foreign"), old, old);
  const names = [
    join(root, "foreign"),
    "foreign",
    join(root, "11111111-1111-4111-8111-111111111111"),
    elsewhere,
    root,
    "/",
    "..",
    join(root, ".owned"),
  ];
  const { removed, results } = await clean({ paths: names.join(","), max_age_hours: 100, force: true });
  expect(removed).toBe(0);
  expect(results.map(({ path, success, worktree_id }) => ({ path, success, worktree_id }))).toEqual(
    names.map((path) => ({ path, success: false, worktree_id: null })),
  );
  expect(existsSync(join(root, "foreign", "mine.txt"))).toBe(true);
  expect(await readdir(elsewhere)).toEqual(["precious.txt"]);
});

test("one whose owner file is spoilt is left in place, and with force forgotten: what is there stays", async () => {
  const { prepare, get } = worktreeAsks(service);
  const { path, worktree_id } = await prepare(remote.path);
  await writeFile(join(path, "work.txt"), "not committed\n");
  await writeFile(join(path, "..", ".owned", `${worktree_id}.json`), "spoilt");
  const { status, error } = await get(worktree_id);
  expect(status).toBe("failed");
  expect(error).toContain("Its owner file");
  const refused = await clean({ paths: worktree_id });
  expect(refused).toMatchObject({ removed: 0, results: [{ success: false, error }] });
  const forgotten = await clean({ paths: worktree_id, force: true });
  expect(forgotten.results).toMatchObject([{ success: true, size_bytes: 0 }]);
  expect(existsSync(join(path, "work.txt"))).toBe(true);
  expect(await codeOf(service.client.get_worktree({ worktree_id }))).toBe("worktree_not_found");
});

test("one whose work cannot be saved stays as it was, and jobs can continue in it", async () => {
  const alone = await startService();
  const { prepare, get, inCache } = worktreeAsks(alone);
  const { path, worktree_id } = await prepare(remote.path);
  await writeFile(join(path, "work.txt"), "not committed\n");
  const inTheWay = "refs/service/salvage";
  await inCache("update-ref", inTheWay, "HEAD").catch(() =>
    inCache("update-ref", inTheWay, "refs/remotes/origin/main"),
  );
  const { removed, results } = await alone.client.cleanup_worktrees({ paths: path, force: true });
  expect(removed).toBe(0);
  expect(results[0]?.error).toContain("could not be removed");
  expect(existsSync(join(path, "work.txt"))).toBe(true);
  expect(await get(worktree_id)).toMatchObject({ status: "ready", error: null });
  const job = await asks(alone).run({ task: 'scenario: work {"file": "one.txt"}', worktree_id });
  expect(job.status).toBe("succeeded");
});

test("a prepared worktree goes by itself when nobody has used it for its time, its work saved", async () => {
  const home = await temporaryDirectory();
  const first = await startService({ home });
  const { path, worktree_id } = await worktreeAsks(first).prepare(remote.path);
  await writeFile(join(path, "work.txt"), "not committed\n");
  await first.stop();
  const file = join(home, ".service", "jobs", "worktrees", `${worktree_id}.json`);
  const record = JSON.parse(await readFile(file, "utf8")) as object;
  await writeFile(file, JSON.stringify({ ...record, used_at: new Date(Date.now() - 120_000).toISOString() }));
  const again = await startService({ home, env: { SERVICE_PREPARED_WORKTREE_TTL: "60" } });
  const removed = await worktreeAsks(again).when(worktree_id, "removed");
  expect(removed.salvage_ref).toBe(`refs/service/salvage/${worktree_id}`);
  expect(existsSync(path)).toBe(false);
  expect(await worktreeAsks(again).inCache("show", `${removed.salvage_ref}:work.txt`)).toBe("not committed");
});
