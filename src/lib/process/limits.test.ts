import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { afterFile } from "../../../test/cleanup.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { findGroups, limit, makeGroups, removeGroups, wereKilled, type Limits } from "./limits.ts";
import { supervise } from "./supervise.ts";

const PATH = "/usr/bin:/bin:/usr/sbin:/sbin";
const megabyte = 2 ** 20;

/** Runs a script within limits. */
const runIn = async (asked: Limits, script: string) => {
  const limited = await limit(asked, false, `svc-run-${randomUUID()}`);
  afterFile(() => limited[Symbol.asyncDispose]());
  const started = await supervise({
    command: "/bin/sh",
    args: ["-c", script],
    cwd: "/",
    env: { PATH },
    marker: { name: "SERVICE_TEST", value: randomUUID() },
    box: { prefix: [...limited.outside, ...limited.inside], filter: null },
    stdin: "",
  });
  if (!started.ok) throw new Error(started.message);
  let output = "";
  for (const stream of [started.process.stdout, started.process.stderr])
    stream.on("data", (piece: Buffer) => (output += piece.toString()));
  return { ended: await started.process.ended, output, limited };
};

/** Says so when it has the memory. */
const take = (megabytes: number) => `perl -e 'my $all = "x" x (${megabytes} * 2**20); print "taken"'`;
/** Starts as many as it may, and says how many. */
const fork = `perl -e 'my @all; for (1 .. 60) { my $pid = fork; last unless defined $pid; if (!$pid) { sleep 100; exit } push @all, $pid } print "started ", scalar @all; kill "KILL", @all'`;

test("the kernel ends a run before the service when memory is short", async () => {
  const { output, limited } = await runIn(
    { memoryBytes: null, processes: null },
    "cat /proc/self/oom_score_adj",
  );
  expect(output.trim()).toBe("500");
  expect(limited).toMatchObject({ kind: "none", warnings: [] });
});

test("memory and processes are held, or a warning says what is not", async () => {
  const { output, limited, ended } = await runIn(
    { memoryBytes: 200 * megabyte, processes: 30 },
    `${take(50)}; ${take(400)}; ${fork}; exit 7`,
  );
  const isHeld = (what: string): boolean => !limited.warnings.some((warning) => warning.includes(what));
  expect(limited.kind === "none").toBe(limited.warnings.length > 0);
  expect(output.match(/taken/g)).toHaveLength(isHeld("of memory") ? 1 : 2);
  const started = Number(/started (\d+)/.exec(output)?.[1]);
  expect(started).toBeLessThanOrEqual(isHeld("of the number of processes") ? 30 : 60);
  expect(started).toBeGreaterThan(20);
  expect(ended.exitCode).toBe(7);
  const made = limited.outside.filter((each) => each.includes("svc-run-"));
  expect(made.length > 0).toBe(limited.kind === "cgroup");
  await limited[Symbol.asyncDispose]();
  for (const directory of made) await expect(readdir(directory)).rejects.toThrow("ENOENT");
});

/** A directory with the files that a kernel would have there. */
const hierarchy = async (files: Record<string, string>): Promise<string> => {
  const root = await temporaryDirectory();
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(root, name, ".."), { recursive: true });
    await writeFile(join(root, name), text);
  }
  return root;
};

test("groups of version 1 are found by their controllers", async () => {
  const text = "5:devices:/\n4:memory:/some/where\n8:pids:/\n1:name=systemd:/\n0::/\n";
  expect(await findGroups(text, "/sys/fs/cgroup")).toEqual({
    memory: "/sys/fs/cgroup/memory/some/where",
    processes: "/sys/fs/cgroup/pids/",
    version: 1,
  });
});

test("in a group of version 2 the service moves aside, and a run gets one group for both", async () => {
  const root = await hierarchy({ "svc.service/cgroup.controllers": "cpu memory pids\n" });
  const own = join(root, "svc.service");
  const groups = await findGroups("0::/svc.service\n", root);
  expect(groups).toEqual({ memory: own, processes: own, version: 2 });
  expect(await readFile(join(own, "cgroup.subtree_control"), "utf8")).toBe("+memory +pids");
  expect(await readFile(join(own, "svc-service/cgroup.procs"), "utf8")).toBe(String(process.pid));
  // As it is found after that.
  expect(await findGroups("0::/svc.service/svc-service\n", root)).toEqual(groups);
  const [made = "", ...others] =
    (await makeGroups(groups!, { memoryBytes: 1e9, processes: 30 }, "run")) ?? [];
  expect(others).toEqual([]);
  const read = (name: string) => readFile(join(made, name), "utf8");
  expect(await Promise.all(["memory.max", "memory.swap.max", "pids.max"].map(read))).toEqual([
    "1000000000",
    "0",
    "30",
  ]);
});

test("groups that a killed service left are removed, unless a process is in one; those of others stay", async () => {
  const root = await hierarchy({ "a/svc-1-used/cgroup.procs": "4711\n", "a/svc-2-x/cgroup.procs": "" });
  await mkdir(join(root, "a/svc-1-empty"));
  await removeGroups("svc-1-", { memory: join(root, "a"), processes: join(root, "a"), version: 2 });
  expect(await readdir(join(root, "a"))).toEqual(["svc-1-used", "svc-2-x"]);
});

test.each([
  ["which does not exist", "0::/missing", {}],
  ["without the controllers", "0::/shared", { "shared/cgroup.controllers": "cpu\n" }],
])("a group of version 2 %s is left as it is", async (_what, text, files) => {
  const root = await hierarchy({ "shared/cgroup.procs": "", ...files });
  expect(await findGroups(text, root)).toBeNull();
  expect(await readdir(join(root, "shared"))).not.toContain("svc-service");
  expect(await readFile(join(root, "shared/cgroup.procs"), "utf8")).toBe("");
});

test("out of a group of version 2 in which there are others the service does not move", async () => {
  // What may not be written is a directory here.
  const root = await hierarchy({
    "shared/cgroup.controllers": "memory pids\n",
    "shared/cgroup.subtree_control/x": "",
  });
  expect(await findGroups("0::/shared", root)).toBeNull();
  expect(await readFile(join(root, "shared/cgroup.procs"), "utf8")).toBe(String(process.pid));
});

test.each([
  ["version 2, of its own limit", "memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n", true],
  ["version 2, ten of them", "memory.events", "oom 10\noom_kill 10\n", true],
  ["version 2, of a limit above it", "memory.events", "max 0\noom 0\noom_kill 1\n", false],
  ["version 2, of none", "memory.events", "max 9\noom 1\noom_kill 0\n", false],
  [
    "version 1, which does not tell whose limit",
    "memory.oom_control",
    "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    true,
  ],
  ["version 1, of none", "memory.oom_control", "oom_kill_disable 1\nunder_oom 0\noom_kill 0\n", false],
])("a kill because of memory is told: %s", async (_of, file, text, was) => {
  const group = await temporaryDirectory();
  await writeFile(join(group, file), text);
  expect(await wereKilled([join(group, "gone"), group])).toBe(was);
});
