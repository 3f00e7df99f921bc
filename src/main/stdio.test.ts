import type { ChildProcess } from "node:child_process";
import { mkdir, readdir, readFile, readlink, stat } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { isJSONRPCNotification, isJSONRPCResponse } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { startRedis } from "../../test/redis.ts";
import { startService, svcProgram } from "../../test/service.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { operations } from "../contract/operations.ts";
import { environment, initialize, startRaw, submit } from "./stdio.fixture.ts";

/** An official client with `svc serve` as its child. */
const connect = async (home: string, env?: Record<string, string>, mode: "auto" | "legacy" = "auto") => {
  const [command, ...args] = svcProgram;
  const transport = new StdioClientTransport({
    command,
    args: [...args, "serve"],
    env: environment(home, env),
    cwd: home,
    stderr: "pipe",
  });
  let stderr = "";
  transport.stderr?.on("data", (data: Buffer) => (stderr += data.toString()));
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(transport);
  return { client, stderr: () => stderr };
};

test("every byte on stdout is protocol, also when everything is logged, and each message is a line", async () => {
  const raw = startRaw(await temporaryDirectory(), { SERVICE_LOG_LEVEL: "trace" });
  await raw.ask("initialize", initialize);
  raw.say('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  raw.say('nonsense\n{"jsonrpc":\n\n[]\n"text"\n{"jsonrpc":"2.0"}\n');
  expect((await raw.ask("tools/list")).result).toHaveProperty("tools");
  expect((await raw.ask("tools/call", { name: "no tool" })).error).toMatchObject({ code: -32602 });
  const id = await submit(raw, "scenario: text");
  await raw.ask("tools/call", {
    name: "wait_for_job",
    arguments: { job_id: id },
    _meta: { progressToken: "p" },
  });
  raw.child.stdin.end();
  expect(await raw.exited).toEqual([0, null]);
  const lines = raw.output.stdout.split("\n");
  expect(lines.pop()).toBe("");
  for (const line of lines) {
    const message: unknown = JSON.parse(line);
    expect(isJSONRPCResponse(message) || isJSONRPCNotification(message)).toBe(true);
    expect(JSON.stringify(message)).toBe(line);
  }
  expect(raw.output.stderr).toContain('"msg":"tool call"');
});

test("a message that is nested deeply or has very many values has its answer, and so has the next one; one that never ends ends it", async () => {
  const raw = startRaw(await temporaryDirectory(), { SERVICE_OTEL_ENABLED: "false" });
  await raw.ask("initialize", initialize);
  // Without telemetry it opens no port.
  expect(await listeningSockets(raw.child)).toEqual([]);
  const call = (value: string) =>
    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_job","arguments":{"job_id":${value}}}}\n`;
  raw.say(call(`${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`));
  raw.say(call(`[${Array(1_000_000).fill(1).join()}]`));
  expect((await raw.ask("tools/list")).result).toHaveProperty("tools");
  const refused = { isError: true, structuredContent: { error: "job_id: must be a string" } };
  const answers = () => raw.received().filter((message) => message.id === 7);
  await until(() => answers().length === 2);
  expect(answers()).toMatchObject([{ result: refused }, { result: refused }]);
  raw.say("x".repeat(12_000_000));
  expect(await raw.exited).toEqual([0, null]);
});

test.each(["stdin ends", "SIGTERM", "the client is killed"])(
  "when %s, running jobs are ended and settled as by every other stop",
  async (how) => {
    const home = await temporaryDirectory();
    const raw = startRaw(home);
    await raw.ask("initialize", initialize);
    const id = await submit(raw, "scenario: hang");
    const pid = await until(async () => {
      const { result } = await raw.ask("tools/call", { name: "get_job", arguments: { job_id: id } });
      return (result as { structuredContent: { job: { pid: number | null } } }).structuredContent.job.pid;
    });
    if (how === "stdin ends") raw.child.stdin.end();
    else if (how === "SIGTERM") raw.child.kill(how);
    else {
      // Nobody reads the answer to this.
      raw.say(`${JSON.stringify({ jsonrpc: "2.0", id: 99, method: "tools/list" })}\n`);
      raw.child.stdout.destroy();
      raw.child.stdin.destroy();
    }
    expect((await raw.exited)[0]).toBe(0);
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
    const record = await readFile(`${home}/.service/jobs/${id}.json`, "utf8");
    expect(JSON.parse(record)).toMatchObject({ status: expect.not.stringMatching("running") });
  },
);

test("a stdin that is closed from the start ends it at once", async () => {
  const closed = startRaw(await temporaryDirectory());
  closed.child.stdin.end();
  expect(await closed.exited).toEqual([0, null]);
});

test.each([
  ["alone", "auto"],
  ["that shares its jobs with others", "legacy"],
] as const)(
  "beside a running service %s it passes on what it is asked, era %s: same jobs, same failures",
  async (kind, mode) => {
    const shared = kind === "alone" ? {} : { KV_URL: (await startRedis()).url };
    const env = { SERVICE_API_KEYS: "the-key-of-this-test", ...shared };
    const service = await startService({ env });
    const { client, stderr } = await connect(service.home, env, mode);
    const run = await client.callTool({ name: "run_task", arguments: { task: "scenario: text" } });
    const { job } = operations.run_task.output.parse(run.structuredContent);
    expect((await service.client.get_job({ job_id: job.id })).job.task).toBe("scenario: text");
    expect(stderr()).toContain(`"url":"${service.url}","msg":"serving on stdin and stdout for the service`);
    const missing = await client.callTool({ name: "get_job", arguments: { job_id: "x" } });
    expect(missing).toMatchObject({
      isError: true,
      structuredContent: {
        success: false,
        error: expect.stringMatching(/^There is no job x;/),
        code: "job_not_found",
      },
    });
    const wrong = await client.callTool({ name: "list_jobs", arguments: { limit: "five" } });
    expect(wrong.structuredContent).toMatchObject({ error: "limit: must be a whole number" });
    const _meta = { "svc/idempotency-key": "once" };
    for (const task of ["one", "two"])
      await client.callTool({ name: "run_task", arguments: { task }, _meta });
    const conflict = await client.callTool({ name: "run_task", arguments: { task: "two" }, _meta });
    expect(conflict.structuredContent).toMatchObject({ code: "idempotency_conflict" });
    const hanging = await service.client.run_task({ task: "scenario: hang" });
    const heard: string[] = [];
    const wait = { job_id: hanging.job.id, timeout: 2 };
    await client.callTool(
      { name: "wait_for_job", arguments: wait },
      { onprogress: ({ message }) => void heard.push(message ?? "") },
    );
    expect(heard[0]).toMatch(/^(queued|running: \w+, attempt 1)$/);
    await client.close();
    expect((await service.client.health()).status).toBe("ok");
    await service.client.cancel_job({ job_id: hanging.job.id });
  },
);

test("a service that is gone, or asks for another key, is reported with what to do, and is asked again with the next call", async () => {
  const home = await temporaryDirectory();
  const service = await startService({ home });
  const { client } = await connect(home);
  // The client's first call may still be answered by a process of its own, begun when it knew the era.
  expect(await client.callTool({ name: "list_jobs", arguments: {} })).not.toHaveProperty("isError");
  await service.stop();
  const gone = await client.callTool({ name: "list_jobs", arguments: {} });
  expect(gone).toMatchObject({
    isError: true,
    structuredContent: { code: "unreachable", error: expect.stringContaining("svc serve") },
  });
  const { port } = new URL(service.url);
  const SERVICE_API_KEYS = "another-key";
  await startService({ home, env: { SERVICE_PORT: port, SERVICE_API_KEYS } });
  const locked = await client.callTool({ name: "list_jobs", arguments: {} });
  expect(locked.structuredContent).toMatchObject({
    code: "unauthorized",
    error: expect.stringContaining("SERVICE_API_KEY"),
  });
  await client.close();
  const { client: next, stderr } = await connect(home, { SERVICE_API_KEYS });
  expect(await next.callTool({ name: "list_jobs", arguments: {} })).not.toHaveProperty("isError");
  expect(stderr()).toContain("for the service that runs already");
  await next.close();
});

/** Like a second editor window: another process for the same home. */
const listed = async (client: Client): Promise<string[]> => {
  const { structuredContent } = await client.callTool({ name: "list_jobs", arguments: {} });
  return operations.list_jobs.output.parse(structuredContent).jobs.map(({ id }) => id);
};

test("a second process shares the first one's service over a socket that only this user may open, and takes over when the first one's client leaves", async () => {
  // Longer than the path of a socket may be.
  const home = join(await temporaryDirectory(), "d".repeat(150));
  await mkdir(home);
  const env = { SERVICE_OTEL_ENABLED: "false", SERVICE_API_KEYS: "a-key-of-twenty-letters" };
  const [first, second] = [await connect(home, env), await connect(home, env)];
  const run = await first.client.callTool({ name: "run_task", arguments: { task: "scenario: text" } });
  const { job } = operations.run_task.output.parse(run.structuredContent);
  expect(await listed(second.client)).toEqual([job.id]);
  expect(second.stderr()).toContain("for the service that runs already");
  const { mode } = await stat(join(home, ".service", "jobs", "service.sock"));
  expect((mode & 0o777).toString(8)).toBe("600");

  const third = await connect(home, env);
  expect(await listed(third.client)).toEqual([job.id]);
  await first.client.close();
  expect(await listed(second.client)).toEqual([job.id]);
  const again = await third.client.callTool({ name: "run_task", arguments: { task: "scenario: text" } });
  expect(again).not.toHaveProperty("isError");
  expect((await listed(second.client)).length).toBe(2);
  await second.client.close();
  await third.client.close();
});

test("without a call, a process takes over soon after the first one is killed, and settles its jobs", async () => {
  const home = await temporaryDirectory();
  const first = startRaw(home);
  await first.ask("initialize", initialize);
  const id = await submit(first, "scenario: hang");
  await until(async () => {
    const { result } = await first.ask("tools/call", { name: "get_job", arguments: { job_id: id } });
    return (result as { structuredContent: { job: { pid: number | null } } }).structuredContent.job.pid;
  });
  const second = await connect(home);
  first.child.kill("SIGKILL");
  await first.exited;
  const began = performance.now();
  await until(async () => second.stderr().includes('"msg":"serving on stdin and stdout"'));
  expect(performance.now() - began).toBeLessThan(15_000);
  const record = () => readFile(`${home}/.service/jobs/${id}.json`, "utf8");
  await until(async () => (await record()).includes('"instance_lost"'));
  await second.client.close();
});

/** Sockets on which the process takes connections, by their inode. */
const listeningSockets = async ({ pid }: ChildProcess): Promise<string[]> => {
  const directory = `/proc/${pid}/fd`;
  const links = await Promise.all(
    (await readdir(directory)).map((fd) => readlink(`${directory}/${fd}`).catch(() => "")),
  );
  const tables = await Promise.all(
    ["tcp", "tcp6"].map((name) => readFile(`/proc/${pid}/net/${name}`, "utf8")),
  );
  const listening = tables
    .flatMap((table) => table.split("\n").slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter((columns) => columns[3] === "0A")
    .map((columns) => `socket:[${columns[9]}]`);
  return links.filter((link) => listening.includes(link));
};
