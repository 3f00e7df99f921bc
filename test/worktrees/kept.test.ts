import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
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
