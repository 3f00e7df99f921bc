import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { afterFile } from "../../../test/cleanup.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { until } from "../../../test/until.ts";
import { lockFile } from "../file-lock.ts";
import { identify } from "./identity.ts";
import { killOrphans } from "./orphans.ts";
import { supervise } from "./supervise.ts";
import { leftWarnings } from "./sweep.ts";
import { readRow } from "./table.ts";

const PATH = process.env["PATH"] ?? "";
const lockHolder = fileURLToPath(new URL("../fixtures/lock-holder.ts", import.meta.url));

/** Runs a script as an agent whose worktree is `directory`, with `other` as its working directory. */
const runIn = async (directory: string, script: string, other = directory) => {
  const marker = { name: "SERVICE_JOB_ID", value: randomUUID() };
  const env = { PATH, DIRECTORY: directory };
  const spawned = await supervise({
    command: "/bin/sh",
    args: ["-c", script],
    cwd: other,
    env,
    marker,
    directories: [directory],
  });
  if (!spawned.ok) throw new Error(spawned.message);
  spawned.process.stdout.resume();
  spawned.process.stderr.resume();
  return spawned.process;
};

/** The pid that a script writes, once it has. */
const pidIn = (directory: string, file = "pid"): Promise<number> =>
  until(async () => Number(await readFile(join(directory, file), "utf8")), { what: `a pid in ${file}` });

test.for([
  { what: "without an environment", script: "env -i setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid" },
  {
    what: "that writes its title over its environment",
    script:
      'redis-server --port 0 --unixsocket redis.sock --daemonize yes --pidfile "$PWD/its"; until [ -s its ]; do sleep 0.02; done; cp its pid',
  },
  {
    what: "at work elsewhere, with a file open there",
    script: 'cd /; env -i setsid sleep 1000 >"$DIRECTORY/log" 2>&1 & echo $! > "$DIRECTORY/pid"',
  },
])("a daemon $what is ended with the run", async ({ script }) => {
  const directory = await temporaryDirectory();
  const run = await runIn(directory, script);
  const report = await run.ended;
  const pid = await pidIn(directory);
  const left = readRow(pid);
  if (left !== null) process.kill(pid, "SIGKILL");
  expect(left).toBeNull();
  expect(report).toMatchObject({ survivors: [], hidden: [] });
});

test("a daemon elsewhere that was seen while the run lasted is ended with it", async () => {
  const directory = await temporaryDirectory();
  const daemon = 'cd /; env -i setsid sleep 1000 >/dev/null 2>&1 & echo $! > "$DIRECTORY/pid"; sleep 2';
  const run = await runIn(directory, `sh -c '${daemon}'; read end`, "/");
  const pid = await pidIn(directory);
  // Its parent is gone before the run ends.
  await until(() => readRow(readRow(pid)?.parent ?? 0)?.name !== "sh");
  run.stdin.end();
  const { swept } = await run.ended;
  const left = readRow(pid);
  if (left !== null) process.kill(pid, "SIGKILL");
  expect({ left, swept }).toEqual({ left: null, swept: 1 });
});

test("a process that cannot be ended is named by its pid and command", () => {
  const report = { swept: 1, survivors: [{ pid: 7, name: "postgres" }], hidden: [] };
  expect(leftWarnings(report)).toEqual([
    "Processes of the run could not be ended: 7 (postgres). End them by hand.",
  ]);
});

test("a daemon of a run whose service has died is ended at the next start", async () => {
  const directory = await temporaryDirectory();
  const script = "env -i setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid; wait";
  const leader = spawn("/bin/sh", ["-c", script], {
    cwd: directory,
    detached: true,
    stdio: "ignore",
    env: { PATH },
  });
  const identity = await until(() => identify(leader.pid!));
  const pid = await pidIn(directory);
  leader.kill("SIGKILL");
  await until(() => readRow(pid)?.parent !== leader.pid);
  const marker = { name: "SERVICE_JOB_ID", value: randomUUID() };
  const later = { graceSeconds: 0, directories: [directory] };
  await killOrphans({ ...identity, boot_id: "another boot" }, marker, later);
  expect(readRow(pid)).not.toBeNull();
  expect(await killOrphans(identity, marker, later)).toMatchObject({ survivors: [], hidden: [] });
  expect(readRow(pid)).toBeNull();
});

test("a lock that a daemon of an ended run has held is free", async () => {
  const directory = await temporaryDirectory();
  const path = join(directory, ".lock");
  const hold = `env -i "PATH=$PATH" setsid "${process.execPath}" "${lockHolder}" "${path}" 1000 >"${directory}/holder" &`;
  const run = await runIn(directory, `${hold} until [ -s "${directory}/holder" ]; do sleep 0.02; done`, "/");
  await run.ended;
  await using lock = await lockFile({ path, timeoutSeconds: 0.5, signal: new AbortController().signal });
  expect(lock.fd).toBeGreaterThan(0);
});

const superviseModule = fileURLToPath(new URL("supervise.ts", import.meta.url));

/** A separate service that supervises one run in the directory until its standard input ends. */
const supervisor = `
  import { supervise } from ${JSON.stringify(superviseModule)};
  const [directory] = process.argv.slice(1);
  const marker = { name: "SERVICE_JOB_ID", value: crypto.randomUUID() };
  const env = { PATH: process.env.PATH };
  const run = { command: "/bin/sh", args: ["-c", "echo begun; read end"], cwd: directory };
  const { process: agent } = await supervise({ ...run, env, marker, directories: [directory] });
  agent.stdout.pipe(process.stdout, { end: false });
  agent.stderr.resume();
  process.stdin.pipe(agent.stdin);
  console.log(JSON.stringify(await agent.ended));`;

test("a child of the program that has started the service is no orphan", async () => {
  const directory = await temporaryDirectory();
  const node = ["--input-type=module-typescript", "--eval", supervisor, directory];
  const service = spawn(process.execPath, node, { env: { PATH }, stdio: ["pipe", "pipe", "inherit"] });
  let said = "";
  service.stdout.on("data", (data: Buffer) => (said += data.toString()));
  await until(() => said.includes("begun"));
  const sibling = spawn("sleep", ["1000"], {
    cwd: directory,
    detached: true,
    stdio: "ignore",
    env: { PATH },
  });
  afterFile(() => sibling.kill("SIGKILL"));
  service.stdin.end();
  await until(() => said.includes("}"));
  expect(JSON.parse(said.slice(said.indexOf("{")))).toMatchObject({ swept: 0, survivors: [], hidden: [] });
  expect(readRow(sibling.pid!)).not.toBeNull();
});

test("processes of others in the directory are left alone", async () => {
  const directory = await temporaryDirectory();
  const orphan = async (file: string, env: Record<string, string> = {}): Promise<number> => {
    const script = `setsid sleep 1000 & echo $! > ${file}`;
    spawn("/bin/sh", ["-c", script], { cwd: directory, stdio: "ignore", env: { PATH, ...env } });
    const pid = await pidIn(directory, file);
    afterFile(() => process.kill(pid, "SIGKILL"));
    // Between fork and exec it has nothing yet that says whose it is.
    await until(async () => (await readFile(`/proc/${pid}/comm`, "utf8")) === "sleep\n");
    return pid;
  };
  const older = await orphan("older");
  await until(() => readRow(older)?.parent !== process.pid);
  const run = await runIn(directory, "read end");
  const ofAnotherJob = await orphan("other", { SERVICE_JOB_ID: "another", SERVICE_INSTANCE: "some" });
  const child = spawn("sleep", ["1000"], { cwd: directory, detached: true, stdio: "ignore", env: { PATH } });
  afterFile(() => child.kill("SIGKILL"));
  run.stdin.end();
  expect(await run.ended).toMatchObject({ exitCode: 1, swept: 0, survivors: [], hidden: [] });
  for (const pid of [older, ofAnotherJob, child.pid!]) expect(readRow(pid)).not.toBeNull();
});
