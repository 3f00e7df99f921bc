import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chmod, readFile, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { until } from "../../../test/until.ts";
import { identifyChild, isAlive } from "./identity.ts";
import { supervise, type SupervisedProcess, type SuperviseOptions } from "./supervise.ts";
import { leftWarnings } from "./sweep.ts";
import { findMarked } from "../../../test/processes.ts";
import { readRow } from "./table.ts";

const newMarker = () => ({ name: "SERVICE_JOB_ID", value: randomUUID() });
const PATH = process.env["PATH"] ?? "";

/** A shell script under supervision; its output is collected. */
const shell = async (script: string, options: Partial<SuperviseOptions> = {}) => {
  const marker = newMarker();
  const cwd = await temporaryDirectory();
  const spawned = await supervise({
    command: "/bin/sh",
    args: ["-c", script],
    cwd,
    env: { PATH },
    marker,
    ...options,
  });
  if (!spawned.ok) throw new Error(spawned.message);
  return { ...collect(spawned.process), cwd, marker };
};

const collect = (supervised: SupervisedProcess) => {
  let text = "";
  supervised.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
  supervised.stderr.resume();
  return { supervised, output: () => text };
};

const forever = "while :; do sleep 0.1; done";

test("gives variables to the program alone, not to what puts the sandbox around it", async () => {
  const box = { prefix: ["/bin/sh", "-c", 'echo "outside: $EVIL"; exec "$@"', "sh"], filter: null };
  const { supervised, output } = await shell('echo "inside: $EVIL, $$"; env | grep -c ^SVC_WITHIN_; read _', {
    box,
    within: { env: { EVIL: "a b=c'\"$x", TWO: "2" } },
  });
  await until(() => output().endsWith("\n0\n"));
  expect(await readFile(`/proc/${supervised.pid}/cmdline`, "utf8")).not.toContain("a b=c");
  supervised.stdin.end();
  await supervised.ended;
  expect(output()).toBe(`outside: \ninside: a b=c'"$x, ${supervised.pid}\n0\n`);
});

test("passes arguments, environment, directory, input and exit code, and keeps the pid", async () => {
  const { supervised, output, marker, cwd } = await shell(
    'read line; echo "$$ $line $SERVICE_JOB_ID $(pwd) $HOME"; exit 7',
    { env: { PATH, HOME: "/nowhere" }, stdin: "hello\n" },
  );
  const ended = await supervised.ended;
  expect(output().trim()).toBe(`${supervised.pid} hello ${marker.value} ${cwd} /nowhere`);
  expect(ended).toEqual({
    exitCode: 7,
    signal: null,
    pipesHeldOpen: false,
    swept: 0,
    survivors: [],
    exceeded: null,
    hidden: [],
  });
});

test.each([
  ["", null],
  [", nor in a sandbox", { prefix: ["/bin/sh", "-c", 'exec "$@"', "sh"], filter: "/dev/null" }],
])("no output of a process that exits at once is lost%s", async (_where, box) => {
  const runs = await Promise.all(Array.from({ length: 15 }, (_, n) => shell(`echo bye ${n}`, { box })));
  await Promise.all(runs.map(({ supervised }) => supervised.ended));
  expect(runs.map(({ output }) => output())).toEqual(runs.map((_, n) => `bye ${n}\n`));
});

test("a polite process ends on TERM long before the grace is over", async () => {
  const { supervised, output } = await shell("trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done");
  await until(() => output() !== "");
  const { identity } = supervised;
  expect((await identity)?.pid).toBe(supervised.pid);
  const began = performance.now();
  expect(await supervised.stop({ graceSeconds: 20 })).toMatchObject({
    exitCode: 5,
    signal: null,
    survivors: [],
  });
  expect(performance.now() - began).toBeLessThan(5000);
  expect(await isAlive((await identity)!)).toBe(false);
});

test("a tree that ignores TERM, with children in other sessions, has ended when stop resolves", async () => {
  const { supervised, output, marker } = await shell(
    // Ignored signals stay ignored in children.
    `trap '' TERM; sh -c "${forever}" & setsid sh -c "${forever}" & (setsid sh -c "${forever}" &) ; echo up; ${forever}`,
  );
  await until(() => output() !== "");
  await until(async () => (await findMarked(marker)).length >= 4);
  const ended = await supervised.stop({ graceSeconds: 0.2 });
  expect(ended).toMatchObject({ exitCode: null, signal: "SIGKILL", survivors: [] });
  expect(await findMarked(marker)).toEqual([]);
});

test("a child that cleared its environment is found by its descent", async () => {
  const { supervised, output } = await shell(
    `trap '' TERM; env -i setsid /bin/sh -c 'echo $$; sleep 1000' & ${forever}`,
  );
  const child = Number(await until(output));
  expect(readRow(child)?.group).toBe(child);
  await supervised.stop({ graceSeconds: 0.1 });
  expect(readRow(child)).toBeNull();
});

test("a child that lost its parent and its environment is found if it was seen while the run lasted", async () => {
  const daemon = "env -i setsid sleep 1000 >/dev/null 2>&1 & echo $!; sleep 2";
  const { supervised, output } = await shell(`sh -c '${daemon}'; read end`);
  const pid = Number(await until(output));
  await until(() => readRow(readRow(pid)?.parent ?? 0)?.name !== "sh");
  supervised.stdin.end();
  const { swept } = await supervised.ended;
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

test("what the leader leaves behind is ended when it exits by itself", async () => {
  const { supervised, marker } = await shell("setsid sleep 1000 & sleep 1000 & exit 3");
  expect(await supervised.ended).toMatchObject({ exitCode: 3, survivors: [] });
  expect(await findMarked(marker)).toEqual([]);
});

test("the run ends although a process outside it holds the pipes open", async () => {
  /** A daemon of which nothing says whose it is, unless it happens to be seen in the moment in which it has a parent. */
  const leaveDaemon = async () => {
    const { supervised, output, cwd } = await shell(
      "(env -i setsid sleep 30 & echo $! > sleeper); while ! ls -l /proc/$(cat sleeper)/exe | grep -q sleep; do :; done; echo bye; exit 0",
    );
    const ended = await supervised.ended;
    const sleeper = Number(await readFile(join(cwd, "sleeper"), "utf8"));
    if (readRow(sleeper) === null) return null;
    process.kill(sleeper, "SIGKILL");
    return { ended, said: output() };
  };
  const { ended, said } = await until(leaveDaemon);
  expect(ended).toMatchObject({ exitCode: 0, pipesHeldOpen: true });
  expect(said).toBe("bye\n");
});

test("processes that restart themselves are ended", async () => {
  const script = `trap 'setsid sh -c "$S" & exit' TERM; while :; do sleep 0.02; done`;
  const { supervised, marker } = await shell('setsid sh -c "$S" & exit 0', { env: { PATH, S: script } });
  expect(await supervised.ended).toMatchObject({ survivors: [] });
  expect(await findMarked(marker)).toEqual([]);
});

test("a zombie does not count as alive", async () => {
  // The child of the middle process has exited, and no process reaps it.
  const { supervised, output, marker } = await shell(
    `exec node -e 'const c = require("child_process").spawn("/bin/true"); console.log(c.pid); const t = Date.now() + 3e4; while (Date.now() < t);'`,
    { env: { PATH } },
  );
  const zombie = Number(await until(output));
  await until(async () => (await readFile(`/proc/${zombie}/stat`, "latin1")).includes(") Z "));
  expect(readRow(zombie)).toBeNull();
  expect((await findMarked(marker)).map(({ pid }) => pid)).toEqual([supervised.pid]);
  expect(await supervised.stop({ graceSeconds: 0.1 })).toMatchObject({ survivors: [] });
});

test("a child that lives but cannot be read is not taken for one that has ended", async () => {
  const unreadable = 2 ** 22 + 1;
  expect(await identifyChild(unreadable, Promise.resolve())).toBeNull();
  const { promise: never } = Promise.withResolvers<void>();
  await expect(identifyChild(unreadable, never)).rejects.toThrow("could not be read in /proc");
});

test("a program that cannot be started gives a sentence", async () => {
  const directory = await temporaryDirectory();
  const script = join(directory, "script");
  await writeFile(script, "#!/bin/sh\n");
  const attempt = (command: string, cwd = directory) =>
    supervise({ command, args: [], cwd, env: { PATH }, marker: newMarker() });
  expect(await attempt("no-such-program-at-all")).toMatchObject({ ok: false, code: "not_found" });
  expect(await attempt(join(directory, "missing"))).toMatchObject({ ok: false, code: "not_found" });
  expect(await attempt(script)).toMatchObject({ ok: false, code: "not_executable" });
  expect(await attempt(directory)).toMatchObject({ ok: false, code: "not_executable" });
  await chmod(script, 0o755);
  const gone = await attempt(script, join(directory, "gone"));
  expect(gone).toMatchObject({ ok: false, code: "no_directory" });
  expect(gone).toHaveProperty("message", `The working directory ${join(directory, "gone")} does not exist.`);
  const huge = await supervise({
    command: "/bin/true",
    args: ["x".repeat(3e5)],
    cwd: directory,
    env: { PATH },
    marker: newMarker(),
  });
  expect(huge).toMatchObject({ ok: false, code: "refused" });
});

test("a supervised process ends when its parent is killed", async () => {
  const supervisePath = fileURLToPath(new URL("supervise.ts", import.meta.url));
  const program = `
    import { supervise } from ${JSON.stringify(supervisePath)};
    const marker = { name: "SERVICE_JOB_ID", value: "parent-death" };
    const options = { command: "sleep", args: ["1000"], cwd: "/", env: { PATH: process.env.PATH }, marker };
    const { process: supervised } = await supervise(options);
    console.log(JSON.stringify(await supervised.identity));
    setInterval(() => {}, 1000);`;
  const parent = spawn(process.execPath, ["--input-type=module-typescript", "--eval", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line]: Buffer[] = await once(parent.stdout, "data");
  const identity: unknown = JSON.parse(line!.toString());
  const child = identity as { pid: number; start_time: string; boot_id: string };
  // Before the program itself runs, the kernel does not know the signal yet; recovery at the next start covers that.
  await until(async () => (await readlink(`/proc/${child.pid}/exe`)).endsWith("/sleep"));
  parent.kill("SIGKILL");
  await until(async () => !(await isAlive(child)));
});
