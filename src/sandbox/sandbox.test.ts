import { randomUUID } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { supervise } from "../lib/process/supervise.ts";
import { createBwrap, type Allowed, type Run } from "./sandbox.ts";

const sandbox = await createBwrap();

const allowedNothing: Allowed = {
  hosts: [],
  openNetwork: false,
  read: [],
  write: [],
  temporaryBytes: 64 * 1024 * 1024,
  memoryBytes: null,
  processes: null,
};

const start = async (script: string, more: Partial<Run> = {}) => {
  const cwd = await temporaryDirectory();
  const denied: string[] = [];
  const path = "/usr/bin:/bin";
  const entered = await sandbox.enter({
    command: "sh",
    path,
    home: "/home/agent",
    cwd,
    writable: [],
    readable: [],
    routes: [],
    allowed: allowedNothing,
    onDenied: (name) => denied.push(name),
    ...more,
  });
  if (entered === null) throw new Error("no sandbox");
  afterFile(() => entered[Symbol.asyncDispose]());
  const marker = { name: "SERVICE_TEST", value: randomUUID() };
  const env = { PATH: path, ...entered.env };
  const started = await supervise({
    command: "sh",
    args: ["-c", script],
    cwd,
    env,
    marker,
    box: entered.box,
  });
  if (!started.ok) throw new Error(started.message);
  const { process } = started;
  const seen = { output: "" };
  for (const stream of [process.stdout, process.stderr])
    stream.on("data", (piece: Buffer) => (seen.output += piece.toString()));
  return { cwd, denied, process, seen, marker };
};

const run = async (script: string, more: Partial<Run> = {}) => {
  const { process, seen, ...rest } = await start(script, more);
  process.stdin.end();
  const ended = await process.ended;
  return { ...rest, ended, output: seen.output };
};

/** Processes of this machine with a marker. */
const marked = async ({ name, value }: { name: string; value: string }): Promise<number> => {
  const { readdir } = await import("node:fs/promises");
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
  const all = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/environ`, "latin1").catch(() => "")),
  );
  return all.filter((text) => text.includes(`${name}=${value}`)).length;
};

test("TERM reaches the program, which may say its last words", async () => {
  const { process, seen, marker } = await start(
    "trap 'echo last words; exit 3' TERM; echo ready; while :; do sleep 0.05; done",
  );
  await until(() => seen.output.includes("ready"));
  const ended = await process.stop({ graceSeconds: 10 });
  expect(seen.output).toContain("last words");
  expect(ended).toMatchObject({ exitCode: 3, survivors: [] });
  expect(await marked(marker)).toBe(0);
});

test("what leaves its session and ignores TERM ends with the run", async () => {
  const deaf = "trap '' TERM HUP INT; echo deaf > f; while :; do sleep 0.05; done";
  const { process, seen, marker, cwd } = await start(
    `setsid sh -c "${deaf}" & env -i setsid nohup sleep 1000 & echo ready; sleep 1000`,
  );
  await until(
    async () =>
      seen.output.includes("ready") && (await readFile(join(cwd, "f"), "utf8").catch(() => "")) !== "",
  );
  await process.stop({ graceSeconds: 1 });
  expect(await marked(marker)).toBe(0);
});

test("the end of the program ends what it left running", async () => {
  const { ended, marker } = await run("setsid sleep 1000 & setsid sleep 1000 & exit 4");
  expect(ended).toMatchObject({ exitCode: 4, survivors: [] });
  expect(await marked(marker)).toBe(0);
});

test("the model gets the service's credential, which is nowhere inside", async () => {
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer((asked, answer) => {
    seen.push(asked.headers);
    answer.end("from the model");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(async () => void server.close());
  const { port } = server.address() as AddressInfo;
  const routes = [
    {
      paths: /^\/v1\//,
      target: new URL(`http://127.0.0.1:${port}`),
      headers: { authorization: "Bearer canary-7d1" },
    },
  ];
  const { output } = await run(
    "i=0; until curl -sS -H 'authorization: Bearer dummy' http://127.0.0.1:3128/v1/messages; do i=$((i+1)); [ $i -gt 50 ] && exit 1; sleep 0.1; done; env; cat /proc/*/environ /proc/*/cmdline",
    { routes },
  );
  expect(output).toContain("from the model");
  expect(output).not.toContain("canary-7d1");
  expect(seen.at(-1)).toMatchObject({ authorization: "Bearer canary-7d1" });
});

test("a refused host is told by name", async () => {
  const { output, denied } = await run(
    "until curl -sS -o /dev/null http://127.0.0.1:3128/; do sleep 0.1; done 2>/dev/null; curl -sS https://registry.example.com/ 2>&1",
  );
  expect(output).toMatch(/403/);
  expect(denied).toEqual(["registry.example.com:443"]);
});

test("what is allowed by name is there, and nothing else of its parent", async () => {
  const home = await temporaryDirectory();
  for (const name of ["given", "kept"]) await mkdir(join(home, name));
  await writeFile(join(home, "given", "f"), "given\n");
  await writeFile(join(home, "kept", "f"), "kept\n");
  const { output } = await run(`cat ${home}/given/f; cat ${home}/kept/f; echo > ${home}/given/g`, {
    readable: [join(home, "given")],
  });
  expect(output).toMatch(/^given$/m);
  expect(output).not.toMatch(/^kept$/m);
  expect(output).toMatch(/Read-only file system/);
});

test("with the host's network nothing listens there for the run, and programs need no proxy", async () => {
  const allowed = { ...allowedNothing, openNetwork: true };
  const { output } = await run("env; cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'; echo done", { allowed });
  expect(output).toMatch(/done$/m);
  expect(output).not.toMatch(/proxy|socat/i);
});
