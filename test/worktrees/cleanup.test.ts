import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { savedCloneOf } from "../cached-clone.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { processesMarked } from "../processes.ts";
import { codeOf, slowGit, worktreeAsks } from "./worktree-world.ts";

let service: Service;
let remote: Awaited<ReturnType<typeof makeRemote>>;
let cache: string;

beforeAll(async () => {
  service = await startService();
  remote = await makeRemote();
  const { path, worktree_id } = await worktreeAsks(service).prepare(remote.path);
  cache = await savedCloneOf(path);
  await clean({ paths: worktree_id });
});

/** Runs git in the cached clone of the remote. */
const inCache = async (...args: string[]): Promise<string> => git(cache, ...args);

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

test("a job names its work that git ignores, a cleanup keeps it, and force removes it", async () => {
  const { path: repo_url } = await makeRemote({ ".gitignore": "outputs/\n*.log\n", "README.md": "# t\n" });
  const run = "mkdir outputs; echo report >outputs/report.md; echo x >run.log; echo 1 >>.git/info/exclude";
  const task = `scenario: shell ${JSON.stringify({ run })}`;
  const job = await asks(service).run({ task, repo_url });
  expect(job).toMatchObject({ status: "succeeded", outcome: "no_change" });
  expect(job.warnings).toEqual([expect.stringMatching(/1 new file, only in \S+: outputs\/report.md$/)]);
  for (const dry_run of [true, false])
    expect((await clean({ paths: job.id, dry_run })).results[0]?.error).toContain("(outputs/report.md)");
  expect(await clean({ paths: job.id, force: true })).toMatchObject({ removed: 1 });
});

describe("work that is not pushed", () => {
  test("keeps its worktree; with force it is saved first", async () => {
    const { prepare, get } = worktreeAsks(service);
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
    expect(await inCache("log", "--format=%s", "-1", branch)).toContain("Local");
    expect(await get(worktree_id)).toMatchObject({ status: "removed", salvage_ref: ref });
    expect(existsSync(path)).toBe(false);
  });

  test("of a job is named in the job", async () => {
    const ask = asks(service);
    const job = await ask.run({ task: "scenario: noop", repo_url: remote.path });
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
    const { prepare } = worktreeAsks(service);
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
});

test("of several cleanups at the same time each worktree is removed by one", async () => {
  const { prepare } = worktreeAsks(service);
  const worktrees = await Promise.all(Array.from({ length: 3 }, () => prepare(remote.path)));
  const paths = worktrees.map(({ path }) => path).join(",");
  const answers = await Promise.all(Array.from({ length: 3 }, () => clean({ paths })));
  expect(answers.map(({ removed }) => removed).reduce((a, b) => a + b)).toBe(3);
  expect(worktrees.filter(({ path }) => existsSync(path))).toEqual([]);
});

test("a job that is submitted while its worktree is removed runs in it or is refused, and never in half of one", async () => {
  const { prepare } = worktreeAsks(service);
  const ask = asks(service);
  const seen: string[] = [];
  for (let round = 0; round < 3; round += 1) {
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
  const { prepare, get } = worktreeAsks(service);
  const { path, worktree_id } = await prepare((await makeRemote()).path);
  await writeFile(join(path, "work.txt"), "not committed\n");
  // A file in the way.
  await mkdir(join(await savedCloneOf(path), "refs/service"), { recursive: true });
  await writeFile(join(await savedCloneOf(path), "refs/service/salvage"), `${"1".repeat(40)}\n`);
  const { removed, results } = await clean({ paths: path, force: true });
  expect(removed).toBe(0);
  expect(results[0]?.error).toContain("could not be removed");
  expect(existsSync(join(path, "work.txt"))).toBe(true);
  expect(await get(worktree_id)).toMatchObject({ status: "ready", error: null });
  const job = await asks(service).run({ task: 'scenario: work {"file": "one.txt"}', worktree_id });
  expect(job.status).toBe("succeeded");
});

test("one that holds what git cannot save is kept and says why; only a second force removes it", async () => {
  const { prepare, get } = worktreeAsks(service);
  const { path, worktree_id } = await prepare(remote.path);
  await mkdir(join(path, "vendor/x"), { recursive: true });
  await git(join(path, "vendor/x"), "init", "--quiet");
  await writeFile(join(path, "work.txt"), "not committed\n");
  const first = await clean({ paths: worktree_id, force: true });
  expect(first).toMatchObject({ removed: 0, results: [{ success: false }] });
  expect(first.results[0]?.error).toContain("nested repository at vendor/x");
  expect((await get(worktree_id)).warnings).toContain("kept: nested repository at vendor/x");
  const { repositories } = await service.client.get_disk_usage({});
  expect(repositories.flatMap(({ kept }) => kept)).toContain(`${worktree_id}: nested repository at vendor/x`);
  const refused = await clean({ paths: worktree_id });
  expect(refused.results[0]?.error).toContain("nested repository at vendor/x");
  // What came since is not lost without a word.
  await mkdir(join(path, "other"));
  await git(join(path, "other"), "init", "--quiet");
  expect((await clean({ paths: worktree_id, force: true })).results[0]?.error).toContain(
    "nested repository at other",
  );
  expect(existsSync(path)).toBe(true);
  const forced = await clean({ paths: worktree_id, force: true });
  expect(forced).toMatchObject({ removed: 1, results: [{ success: true }] });
  expect(forced.results[0]?.error).toMatch(/^Lost with it: .*vendor\/x/);
  expect(existsSync(path)).toBe(false);
  expect(await inCache("show", `refs/service/salvage/${worktree_id}:work.txt`)).toBe("not committed");
});

test("only a force that was refused counts as told, for what it named; a dry run names what would go", async () => {
  const { prepare, get } = worktreeAsks(service);
  const ask = asks(service);
  const { path, worktree_id } = await prepare(remote.path);
  const [dry, force] = [{ dry_run: true }, { force: true }];
  const named = async (how: Parameters<typeof clean>[0]) => {
    const { removed, results } = await clean({ paths: worktree_id, ...how });
    return { removed, error: results[0]?.error ?? null };
  };
  const left = { removed: 0, error: expect.stringContaining("nested repository at vendor/x") as string };
  await mkdir(join(path, "vendor/x"), { recursive: true });
  await git(join(path, "vendor/x"), "init", "--quiet");
  // Nobody has looked at it yet, and then an agent is at work in it.
  expect(await named({ ...dry, ...force })).toEqual(left);
  const job = await ask.speaking((await ask.submit({ task: 'scenario: hang {"after": 1}', worktree_id })).id);
  expect(await named({ ...dry, ...force })).toEqual(left);
  await service.client.cancel_job({ job_id: job.id });
  await ask.when(job.id, ({ ended_at }) => ended_at !== null, "to end");
  await ask.run({ task: "scenario: noop", worktree_id });
  expect((await get(worktree_id)).warnings).toContain("kept: nested repository at vendor/x");
  for (const how of [{}, dry, { ...dry, ...force }, force]) expect(await named(how)).toEqual(left);
  expect(await named({ ...dry, ...force })).toEqual({
    removed: 1,
    error: "Would be lost with it: nested repository at vendor/x",
  });
  expect(await named(dry)).toEqual(left);
  expect(existsSync(path)).toBe(true);
  expect(await named(force)).toEqual({
    removed: 1,
    error: "Lost with it: nested repository at vendor/x",
  });
});

test("after a restart: what is older than asked is removed by age, what nobody has used for its time by itself, its work saved; one in preparation is left, with force stopped", async () => {
  const { prepare } = worktreeAsks(service);
  const [old, young, unused] = [
    await prepare(remote.path),
    await prepare(remote.path),
    await prepare(remote.path),
  ];
  await writeFile(join(unused.path, "work.txt"), "not committed\n");
  await service.stop();
  const ago = (seconds: number): string => new Date(Date.now() - seconds * 1000).toISOString();
  const change = async (id: string, over: object): Promise<void> => {
    const file = join(service.home, ".service", "jobs", "worktrees", `${id}.json`);
    const record = JSON.parse(await readFile(file, "utf8")) as object;
    await writeFile(file, JSON.stringify({ ...record, ...over }));
  };
  await change(old.worktree_id, { created_at: ago(25 * 3600) });
  await change(unused.worktree_id, { used_at: ago(7200) });
  const { path, hold } = await slowGit(service.home);
  const env = { PATH: path, SERVICE_PREPARED_WORKTREE_TTL: "3600" };
  const again = await startService({ home: service.home, env });
  const { get, list, when } = worktreeAsks(again);
  const { cleanup_worktrees, prepare_worktree } = again.client;

  const gone = await when(unused.worktree_id, "removed");
  expect(gone.salvage_ref).toBe(`refs/service/salvage/${unused.worktree_id}`);
  expect(existsSync(unused.path)).toBe(false);
  expect(await inCache("show", `${gone.salvage_ref}:work.txt`)).toBe("not committed");

  expect((await get(old.worktree_id)).age_hours).toBeCloseTo(25, 1);
  const aged = await cleanup_worktrees({ max_age_hours: 24 });
  expect(aged.results.filter(({ success }) => success).map(({ worktree_id }) => worktree_id)).toEqual([
    old.worktree_id,
  ]);
  expect(aged.removed).toBe(1);
  expect([existsSync(old.path), existsSync(young.path)]).toEqual([false, true]);

  await writeFile(hold, "");
  const asked = codeOf(prepare_worktree({ repo_url: remote.path }));
  const { worktree_id } = await until(
    async () => (await list()).find(({ status }) => status === "preparing"),
    { what: "the list" },
  );
  const refused = await cleanup_worktrees({ paths: worktree_id });
  expect(refused.results[0]?.error).toContain("being prepared");
  const { removed } = await cleanup_worktrees({ paths: worktree_id, force: true });
  expect(removed).toBe(1);
  expect(await asked).toBe("worktree_failed");
  expect((await get(worktree_id)).status).toBe("removed");
});
