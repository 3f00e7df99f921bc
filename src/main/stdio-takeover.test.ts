import { once } from "node:events";
import { ftruncateSync, readdirSync, readFileSync, readlinkSync, writeSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { lockFile } from "../lib/file-lock.ts";
import { initialize, startRaw, submit } from "./stdio.fixture.ts";

/* The other process is played by this one: it has the directory, and ends at the worst moment. */

const lockOf = (home: string): string => join(home, ".service", "jobs", ".lock");

/** Takes the directory as a service does that has not said yet where it is. */
const takeDirectory = async (home: string) => {
  await mkdir(join(home, ".service", "jobs"), { recursive: true, mode: 0o700 });
  const lock = await lockFile({
    path: lockOf(home),
    timeoutSeconds: 20,
    signal: AbortSignal.timeout(100_000),
  });
  ftruncateSync(lock.fd);
  return lock;
};

/** Another client's process, which leaves what it is asked to `onRequest`. */
const startOther = async (home: string, onRequest: (socket: Socket) => void) => {
  const lock = await takeDirectory(home);
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => onRequest(socket));
  });
  await once(server.listen(join(home, ".service", "jobs", "service.sock")), "listening");
  writeSync(lock.fd, JSON.stringify({ url: null, pid: process.pid }));
  const end = async (): Promise<void> => {
    server.close();
    await lock.release();
  };
  afterFile(end);
  return { end };
};

const call = (id: number, name: string): string =>
  `${JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: {} } })}\n`;

type Told = { isError?: boolean; structuredContent: { job: { pid: number | null; status: string } } };

test("a process that finds the directory free, then held, then free again becomes the service", async () => {
  const home = await temporaryDirectory();
  // Each start looks at the key for signing before it locks the directory: here it waits.
  const programs = await temporaryDirectory();
  const [begun, goOn] = [join(programs, "begun"), join(programs, "go-on")];
  const script = `#!/bin/sh\n: > ${begun}\nwhile [ ! -e ${goOn} ]; do sleep 0.05; done\n`;
  await writeFile(join(programs, "ssh-keygen"), script, { mode: 0o755 });
  const env = { PATH: `${programs}:${process.env["PATH"]}`, SERVICE_GIT_SIGNING_KEY: "/key" };
  const raw = startRaw(home, env);
  await until(() => readdirSync(programs).includes("begun"));
  const other = await takeDirectory(home);
  await writeFile(goOn, "");
  const isTrying = (): boolean => {
    const directory = `/proc/${raw.child.pid}/fd`;
    const links = readdirSync(directory).map((fd) => {
      try {
        return readlinkSync(join(directory, fd));
      } catch {
        return "";
      }
    });
    return links.includes(lockOf(home));
  };
  await until(isTrying, { what: "the start to want the lock" });
  // Its start has given up; it now waits for the other one to say where it is.
  await until(() => !isTrying(), { what: "the start to be over" });
  await other.release();
  expect((await raw.ask("initialize", initialize)).result).toBeDefined();
  expect(readFileSync(lockOf(home), "utf8")).toContain(`"pid":${raw.child.pid}`);
  raw.child.stdin.end();
  expect(await raw.exited).toEqual([0, null]);
});

test("a call that fails at the process that has ended is answered here also when the place is taken already; jobs end with this process", async () => {
  const home = await temporaryDirectory();
  const unanswered: Socket[] = [];
  const other = await startOther(home, (socket) => void unanswered.push(socket));
  const raw = startRaw(home);
  await raw.ask("initialize", initialize);
  for (const [at, id] of [50, 51].entries()) {
    raw.say(call(id, "list_jobs"));
    await until(() => unanswered.length === at + 1, { what: "the call to reach the other process" });
  }
  const answerTo = (id: number) =>
    until(() => raw.received().find((message) => message.id === id)?.result as Told | undefined);
  await other.end();
  // No HTTP, so it counts as no answer of a service.
  unanswered[0]?.end("nonsense\r\n\r\n");
  expect(await answerTo(50)).not.toHaveProperty("isError");
  unanswered[1]?.end("nonsense\r\n\r\n");
  expect(await answerTo(51)).not.toHaveProperty("isError");
  const job_id = await submit(raw, "scenario: hang");
  const pid = await until(async () => {
    const { result } = await raw.ask("tools/call", { name: "get_job", arguments: { job_id } });
    return (result as Told).structuredContent.job.pid;
  });
  raw.child.stdin.end();
  expect(await raw.exited).toEqual([0, null]);
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  const record = await readFile(join(home, ".service", "jobs", `${job_id}.json`), "utf8");
  expect(JSON.parse(record)).toMatchObject({ status: expect.not.stringMatching("running") });
});
