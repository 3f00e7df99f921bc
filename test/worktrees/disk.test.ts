import { execFileSync } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { createDisks } from "../../src/worktrees/disk.ts";
import { codeOf, notedGit, worktreeAsks } from "./worktree-world.ts";

type Usage = Awaited<ReturnType<Service["client"]["get_disk_usage"]>>;

test("the room of each repository is reported, cached clone and worktrees apart, largest first, without git, and concurrent callers share a measurement", async () => {
  const home = await temporaryDirectory();
  const { path, journal } = await notedGit(home);
  const env = { SERVICE_WORKTREE_SIZE_EXCLUDE: "node_modules", PATH: path };
  const service = await startService({ home, env });
  const [small, large] = [await makeRemote(), await makeRemote({ "data.bin": "x".repeat(3_000_000) })];
  const { prepare } = worktreeAsks(service);
  const worktree = await prepare(small.path);
  await mkdir(join(worktree.path, "node_modules"));
  await writeFile(join(worktree.path, "node_modules", "big.bin"), "x".repeat(9_000_000));
  await prepare(large.path);
  await prepare(large.path);
  const scratch = await asks(service).run({ task: "scenario: noop" });
  const started = async () => (await readFile(journal, "utf8")).split("\n");
  const before = await started();
  const measured = () => service.client.get_disk_usage();
  const usages = () => Promise.all(Array.from({ length: 50 }, measured)) as Promise<[Usage]>;
  const isWhole = ({ repositories }: Usage) => repositories.every(({ unmeasured }) => unmeasured === 0);
  const [usage] = await until(async () => {
    const all = await usages();
    return all.every(isWhole) ? all : null;
  });
  expect((await started()).slice(before.length - 1).filter(Boolean)).toEqual([]);
  expect(usage.repositories).toMatchObject([
    { repo_url: large.path, worktrees: 2 },
    { repo_url: small.path, worktrees: 1 },
    { repo_url: "", repo_key: null, cache_bytes: 0, worktrees: 1 },
  ]);
  const [first, second] = usage.repositories;
  expect(first?.worktree_bytes).toBeGreaterThan(6_000_000);
  expect(second?.worktree_bytes).toBeLessThan(1_000_000);
  expect(first?.cache_bytes).toBeGreaterThan(0);
  expect(scratch.status).toBe("succeeded");
  expect(usage.volumes.map(({ purpose }) => purpose)).toEqual(["repositories", "worktrees", "jobs"]);
  for (const { free_bytes, total_bytes } of usage.volumes) {
    expect(free_bytes).toBeGreaterThan(0);
    expect(total_bytes).toBeGreaterThan(Number(free_bytes));
  }
  // What was measured is told until it is measured anew.
  const room = async () => (await measured()).repositories[0];
  await writeFile(join(home, "service-repos", String(first?.repo_key), "more.bin"), "x".repeat(100_000));
  expect(await room()).toEqual(first);
  await until(async () => Number((await room())?.cache_bytes) > Number(first?.cache_bytes));

  // A disk that takes no more data makes the service unready, although a file can still be made.
  execFileSync("prlimit", ["--pid", String(service.pid), "--fsize=16384"]);
  const ready = await until(async () => {
    const answer = await fetch(`${service.url}/ready`);
    return answer.status === 503 ? answer.text() : null;
  });
  expect(ready).toContain(join(service.home, ".service", "jobs"));
});

test("below the floor of free room new work is refused with 503, and all else continues", async () => {
  const service = await startService({ env: { SERVICE_MIN_FREE_DISK_BYTES: "1125899906842624" } });
  const remote = await makeRemote();
  const run = service.client.run_task({ task: "x" });
  await expect(run).rejects.toMatchObject({
    code: "disk_full",
    status: 503,
    message: expect.stringContaining("SERVICE_MIN_FREE_DISK_BYTES") as string,
  });
  expect(await codeOf(service.client.prepare_worktree({ repo_url: remote.path }))).toBe("disk_full");
  expect(
    (
      await fetch(`${service.url}/jobs`, {
        method: "POST",
        body: '{"task":"x"}',
        headers: { "content-type": "application/json" },
      })
    ).headers.get("retry-after"),
  ).toBe("60");
  expect((await service.client.list_jobs()).count).toBe(0);
  expect((await service.client.list_worktrees()).count).toBe(0);
  const ready = await fetch(`${service.url}/ready`);
  expect([ready.status, await ready.text()]).toEqual([
    503,
    expect.stringContaining("SERVICE_MIN_FREE_DISK_BYTES") as string,
  ]);
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  expect(metrics).toMatch(/^svc_disk_free_bytes\{purpose="jobs"\} \d+/m);
});

test("without a floor of free room jobs are taken on a disk that has none, and the service is not ready", async () => {
  // It has no room, and says so.
  const places = { reposRoot: "/proc", worktreeRoot: "/proc", jobsDir: "/proc", minFreeDiskBytes: 0 };
  const disks = createDisks(places, () => new Date());
  await disks.requireRoom();
  await expect(disks.requireRoom(1)).rejects.toMatchObject({
    code: "disk_full",
    message: expect.stringContaining("The disk of /proc is full") as string,
  });
});

test("who writes to one disk needs no room on another", async () => {
  const here = await temporaryDirectory();
  // A file system without room.
  const places = { reposRoot: "/proc", worktreeRoot: here, jobsDir: here, minFreeDiskBytes: 0 };
  const disks = createDisks(places, () => new Date());
  await expect(disks.requireRoom(1)).rejects.toMatchObject({ code: "disk_full" });
  await disks.requireRoom(1, "worktrees");
});
