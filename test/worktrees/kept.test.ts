import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { worktreeAsks } from "./worktree-world.ts";

let service: Service;
let remote: Awaited<ReturnType<typeof makeRemote>>;

beforeAll(async () => {
  service = await startService();
  remote = await makeRemote();
});

const clean = async (input: Parameters<Service["client"]["cleanup_worktrees"]>[0]) =>
  service.client.cleanup_worktrees(input);

test("one that holds what git cannot save is kept and says why; only a second force removes it", async () => {
  const { prepare, get, inCache } = worktreeAsks(service);
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
