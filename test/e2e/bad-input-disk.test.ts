import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

/**
 * Disks that are full or read-only. The service runs in a mount namespace of its own, with a small file system of its own
 * for each directory; root may write to any directory, whatever its mode says, so nothing less would do.
 */
let service: Service;
let inside: (script: string, ...args: string[]) => Promise<string>;

const disks = { jobs: "1m", repos: "4m", worktrees: "4m" };
type Disk = keyof typeof disks;
const directory = (disk: Disk): string => join(service.home, disk);

const isRoot = process.getuid?.() === 0;

beforeAll(async () => {
  const home = await temporaryDirectory();
  for (const disk of Object.keys(disks)) await mkdir(join(home, disk));
  const mounts = Object.entries(disks).map(
    ([disk, size]) => `mount -t tmpfs -o size=${size} tmpfs "$HOME/${disk}"`,
  );
  const script = [...mounts, 'exec "$@"'].join(" && ");
  service = await startService({
    home,
    under: ["unshare", "--mount", ...(isRoot ? [] : ["--map-root-user"]), "sh", "-c", script, "sh"],
    env: {
      SERVICE_JOBS_DIR: join(home, "jobs"),
      SERVICE_REPOS_ROOT: join(home, "repos"),
      SERVICE_WORKTREE_ROOT: join(home, "worktrees"),
      SERVICE_MAX_PARALLEL_JOBS: "1",
      // What happens when the room ends in the middle is the subject here.
      SERVICE_MIN_FREE_DISK_BYTES: "0",
    },
  });
  const namespaces = ["--mount", ...(isRoot ? [] : ["--user", "--preserve-credentials"])];
  const enter = ["--target", String(service.pid), ...namespaces, "sh", "-c"];
  inside = async (text, ...args) =>
    (await promisify(execFile)("nsenter", [...enter, text, "sh", ...args])).stdout;
});

/** Takes all room of a disk but `left` KiB until disposed of. */
const fill = async (disk: Disk, left = 0): Promise<AsyncDisposable> => {
  const file = join(directory(disk), ".filler");
  const script = 'dd if=/dev/zero of="$1" bs=4k 2>&1; truncate --size="-$2K" "$1"; sync "$1"';
  expect(await inside(script, file, String(left))).toContain("No space left on device");
  return { [Symbol.asyncDispose]: async () => void (await inside('rm -f "$1"', file)) };
};

/** A read-only mount on top: the disk itself cannot be made so while the service has its lock file open. */
const makeReadOnly = async (disk: Disk): Promise<AsyncDisposable> => {
  await inside('mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"', directory(disk));
  return { [Symbol.asyncDispose]: async () => void (await inside('umount "$1"', directory(disk))) };
};

const run = async (repo_url: string, task = "Do the default thing"): Promise<Job> =>
  (await service.client.run_task({ task, repo_url, wait: true })).job;

const expectGoodJob = async (repoUrl = ""): Promise<void> => {
  expect(await run(repoUrl)).toMatchObject({ status: "succeeded" });
};

const jobOf = async (id: string): Promise<Job> => (await service.client.get_job({ job_id: id })).job;

const refusal = async (method: string, path: string, body?: unknown) => {
  const headers = { "content-type": "application/json" };
  const init = body === undefined ? { method } : { method, headers, body: JSON.stringify(body) };
  const response = await fetch(`${service.url}${path}`, init);
  return {
    status: response.status,
    retryAfter: response.headers.get("retry-after"),
    body: (await response.json()) as unknown,
  };
};

const unavailable = () => ({
  status: 503,
  retryAfter: expect.stringMatching(/^\d+$/) as unknown,
  body: {
    success: false,
    code: "store_unavailable",
    error: expect.stringContaining(directory("jobs")) as unknown,
  },
});

test("a job is refused while the disk of the records is full or read-only, and taken when it is not any more", async () => {
  const { id } = await run("");
  for (const spoil of [fill, makeReadOnly]) {
    await using _spoiled = await spoil("jobs");
    const before = await service.client.list_jobs({ limit: 100 });
    expect(await refusal("POST", "/jobs", { task: "Do the default thing" })).toEqual(unavailable());
    expect(await jobOf(id)).toMatchObject({ status: "succeeded" });
    expect((await service.client.list_jobs({ limit: 100 })).count).toBe(before.count);
  }
  await expectGoodJob();
});

test("a job that ends while the disk of the records is full is written when there is room, and those behind it continue", async () => {
  const submit = async (task: string) => (await service.client.run_task({ task })).job.id;
  const first = await submit('scenario: work {"ms": 500}');
  const second = await submit("Do the default thing");
  await until(async () => (await jobOf(first)).stages.some(({ stage }) => stage === "agent_started"));
  {
    await using _full = await fill("jobs");
    await until(() =>
      new RegExp(`"job":"${first}".*outcome of the job cannot be written`).test(service.output.stderr),
    );
    expect(await refusal("DELETE", `/jobs/${second}`)).toEqual(unavailable());
    expect([(await jobOf(first)).status, (await jobOf(second)).status]).toEqual(["running", "queued"]);
  }
  for (const id of [first, second]) {
    const job = await until(async () => ((await jobOf(id)).ended_at === null ? null : jobOf(id)));
    expect(job).toMatchObject({ status: "succeeded", failure_reason: null });
    const record: unknown = JSON.parse(await inside('cat "$1"', join(directory("jobs"), `${id}.json`)));
    expect(record).toMatchObject({ id, status: "succeeded" });
  }
});

/** A job on this repository fails while a disk is spoilt, in these words. */
const expectFailure = async (
  spoil: Promise<AsyncDisposable>,
  repoUrl: string,
  expected: Partial<Job>,
  words: RegExp,
): Promise<string> => {
  await using _spoiled = await spoil;
  const job = await run(repoUrl);
  expect(job).toMatchObject({ status: "failed", ...expected });
  expect(job.error).toMatch(words);
  return await inside('find "$1" -path "*$2*"', directory("worktrees"), job.id);
};

test("a clone that finds no room fails its job, names the disk, and works when there is room", async () => {
  const { path } = await makeRemote({ "big.txt": randomBytes(400_000).toString("hex") });
  const failed = { failure_reason: "clone_failed", retryable: true } as const;
  const full =
    /^Could not fetch .*: the disk is full\. .*\nWhat to do: Free some space, or point SERVICE_REPOS_ROOT/;
  await expectFailure(fill("repos", 64), path, failed, full);
  await expectFailure(fill("repos"), path, failed, /^Could not fetch .*: the disk is full\./);
  const readOnly = /the file system is read-only\. .*\nWhat to do: Point SERVICE_REPOS_ROOT/;
  await expectFailure(makeReadOnly("repos"), path, { ...failed, retryable: false }, readOnly);
  await expectGoodJob(path);
});

test("a checkout that finds no room fails its job, names the disk, and leaves nothing behind", async () => {
  const { path } = await makeRemote({ "big.txt": "0123456789abcdef".repeat(40_000) });
  const failed = { failure_reason: "worktree_failed", retryable: true } as const;
  const full = /^Could not make the worktree .* because the disk is full\. .*\nWhat to do: Free some space/;
  expect(await expectFailure(fill("worktrees", 128), path, failed, full)).toBe("");
  await expectFailure(fill("worktrees"), path, failed, /^Could not make the worktree .*: the disk is full\./);
  const readOnly =
    /the file system is read-only\. .*\nWhat to do: Point SERVICE_REPOS_ROOT and SERVICE_WORKTREE_ROOT/;
  await expectFailure(makeReadOnly("worktrees"), path, { ...failed, retryable: false }, readOnly);
  await expectGoodJob(path);
});

test("work that cannot be saved for want of room stays where it is, and the job says where", async () => {
  const { path } = await makeRemote();
  const { job } = await service.client.run_task({
    task: 'scenario: error-result {"dirt": true, "ms": 500}',
    repo_url: path,
  });
  await until(async () => (await jobOf(job.id)).stages.some(({ stage }) => stage === "agent_started"));
  {
    await using _full = await fill("repos");
    const ended = await until(async () => ((await jobOf(job.id)).ended_at === null ? null : jobOf(job.id)));
    expect(ended).toMatchObject({ status: "failed", failure_reason: "agent_error", salvage_ref: null });
    expect(ended.warnings.join()).toMatch(
      /could not be saved .*the disk is full.*it is still in .*, which is kept/,
    );
    expect(await inside('cat "$1"', join(String(ended.worktree_path), "dirt.txt"))).toBe("dirt\n");
  }
  await expectGoodJob(path);
});
