import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { createLog } from "../../src/lib/log.ts";
import { createRedisInstances, type InstanceFacts } from "../../src/store/instances.ts";
import { openRedisJobStore } from "../open-stores.ts";
import { openKv } from "../kv.ts";
import { sampleRecord } from "../ports/job-record-sample.ts";
import { lastingPort } from "../lasting-port.ts";
import { startRedis, type TestRedis } from "../redis.ts";
import { until } from "../until.ts";
import { startSvc, svc } from "./run-svc.ts";

/*
 * svc drain as the hook runs it, against a real store. The instance is played through the ports: its lease, its jobs, and
 * what it says about itself.
 */

let redis: TestRedis;
beforeAll(async () => void (redis = await startRedis()));

const log = createLog("silent", (line) => line);

type Played = { server?: TestRedis; prefix?: string; epoch?: string };

/** An instance of the name `worker` in a store of its own. */
const playedInstance = async ({ server = redis, prefix, epoch = randomUUID() }: Played = {}) => {
  const kv = await (prefix === undefined ? openKv(server.url) : openKv(server.url, prefix));
  await kv.client.set(kv.key("format"), "4");
  const store = openRedisJobStore({ kv, podName: "worker", log });
  const instances = createRedisInstances({ kv, name: "worker", self: null, leaseSeconds: 300, log });
  const facts = (changes: Partial<InstanceFacts> = {}): InstanceFacts => ({
    name: "worker",
    epoch,
    version: "1.0.0",
    started_at: new Date().toISOString(),
    running: 0,
    max_parallel_jobs: 3,
    turns: 0,
    draining: false,
    address: null,
    agent_mode: false,
    ...changes,
  });
  const env = { KV_URL: server.url, KV_KEY_PREFIX: kv.prefix, SERVICE_POD_NAME: "worker" };
  const flag = kv.key("pod", "worker", "draining");
  return {
    env,
    prefix: kv.prefix,
    epoch,
    live: () => instances.join(facts()),
    takesNote: (running = 0, turns = 0) => instances.renew(facts({ draining: true, running, turns })),
    /** A job that it runs; resolves to its id. */
    runs: async (id: string = randomUUID()): Promise<string> => {
      const run = { status: "running" as const, pod_name: "worker", instance_epoch: epoch, unsettled: true };
      const record = sampleRecord({ id, created_at: new Date().toISOString(), ...run });
      await store.create(record);
      return id;
    },
    ends: (id: string, changes = {}) =>
      store.update(
        id,
        { status: ["running", "succeeded"] },
        { status: "succeeded", ended_at: new Date().toISOString(), unsettled: false, ...changes },
      ),
    isAsked: instances.isAskedToDrain,
    /** Seconds that the request not to take new jobs lasts; -2: there is none. */
    lasts: () => kv.client.ttl(flag),
    drain: (...args: string[]) => startSvc(["drain", ...args], { env }),
    drained: (...args: string[]) => svc(["drain", ...args], { env }),
  };
};

test("an instance that is not there and has run nothing is no wait; those that are there are named", async () => {
  const worker = await playedInstance();
  const alone = await worker.drained();
  expect(alone).toMatchObject({ code: 2, stdout: "" });
  expect(alone.stderr).toMatch(/^svc: No instance worker is running, nor any other: .* check KV_URL/);
  expect(await worker.lasts()).toBe(-2);
  await worker.live();
  const misspelt = await svc(["drain"], { env: { ...worker.env, SERVICE_POD_NAME: "wroker" } });
  expect(misspelt).toEqual({
    code: 2,
    stdout: "",
    stderr: "svc: No instance wroker is running. Set SERVICE_POD_NAME to one that is: worker\n",
  });
});

test("the instance is asked to take no new jobs, its jobs are waited for and named, and the request is withdrawn", async () => {
  const worker = await playedInstance();
  await worker.live();
  const ids = [await worker.runs(), await worker.runs()];
  const run = worker.drain("--timeout", "120");
  await until(worker.isAsked);
  expect(await worker.lasts()).toBeGreaterThan(120);
  expect(await worker.lasts()).toBeLessThanOrEqual(180);
  await until(() => /Waiting for 2 jobs .*, at most 120 s/.exec(run.output.stderr));
  for (const id of ids) expect(run.output.stderr).toContain(id);
  await worker.takesNote();
  for (const id of ids) await worker.ends(id);
  const { code, stderr } = await run.ended;
  expect({ code, told: /^worker runs no job; waited \d+ s for 2 jobs \(.*\)$/m.test(stderr) }).toEqual({
    code: 0,
    told: true,
  });
  expect(await worker.lasts()).toBe(-2);
});

test("without a job it waits for the word of the instance that it takes no new ones", async () => {
  const worker = await playedInstance();
  await worker.live();
  const run = worker.drain();
  await until(() => run.output.stderr.includes("Waiting for worker to take no new jobs"));
  await worker.takesNote();
  const { code, stderr } = await run.ended;
  expect({ code, last: stderr.split("\n").at(-2) }).toEqual({ code: 0, last: "worker runs no job" });
});

test("what a lost instance ran is waited for until others have settled it, cleaned up or not", async () => {
  const worker = await playedInstance();
  const id = await worker.runs();
  const run = worker.drain();
  await until(() => run.output.stderr.includes(id));
  await worker.ends(id, { status: "failed", unsettled: true });
  expect((await run.ended).code).toBe(0);
});

test("jobs that are left after the time-out are named, and the instance takes no new ones for a while yet", async () => {
  const worker = await playedInstance();
  await worker.live();
  const id = await worker.runs();
  await worker.takesNote(1);
  const { code, stdout, stderr } = await worker.drained("--timeout", "1");
  expect(stderr).toContain(`svc: worker still runs 1 job (${id}) after 1 s. It is asked to take no new jobs`);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(await worker.lasts()).toBeGreaterThan(0);
  expect(await worker.lasts()).toBeLessThanOrEqual(61);
});

test("turns are waited for as jobs are", async () => {
  const worker = await playedInstance();
  await worker.live();
  await worker.takesNote(0, 2);
  const { code, stderr } = await worker.drained("--timeout", "1");
  expect(stderr).toContain("Waiting for 2 turns, at most 1 s");
  expect(stderr).toContain("svc: worker still runs 2 turns after 1 s");
  expect(code).toBe(1);
});

test.each([
  ["never takes note", null],
  ["says that it runs something yet", 1],
])("an instance that %s is told, not called drained", async (_, running) => {
  const worker = await playedInstance();
  await worker.live();
  if (running !== null) await worker.takesNote(running);
  const { code, stderr } = await worker.drained("--timeout", "1");
  expect(stderr).toContain("svc: worker has not said within 1 s that it takes no new jobs and runs none");
  expect(code).toBe(1);
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("%s ends the wait with %i, and the instance takes jobs again", async (signal, code) => {
  const worker = await playedInstance();
  await worker.live();
  const id = await worker.runs();
  const run = worker.drain();
  await until(() => run.output.stderr.includes(id));
  run.child.kill(signal);
  const ended = await run.ended;
  expect(ended.code).toBe(code);
  expect(ended.stderr).toContain("No longer waiting; worker takes new jobs again");
  expect(await worker.lasts()).toBe(-2);
});

test("a store that becomes unreachable is waited for, and one that has forgotten what was asked is asked again", async () => {
  const own = await startRedis();
  const worker = await playedInstance({ server: own });
  await worker.live();
  const id = await worker.runs();
  const run = worker.drain();
  await until(() => run.output.stderr.includes(id));
  await own.kill();
  await until(() => run.output.stderr.includes("Waiting for the key-value store"));
  // What stands in its place knows the instance and its job, and of no request.
  const other = await startRedis();
  const twin = await playedInstance({ ...worker, server: other });
  await twin.live();
  await twin.runs(id);
  // Stopped in order: it writes down all it knows.
  await other.kill("SIGTERM");
  await startRedis({ port: own.port, directory: other.directory });
  await until(() => worker.isAsked());
  await until(() => worker.takesNote());
  await worker.ends(id);
  expect((await run.ended).code).toBe(0);
});

test("a store that cannot be reached is reported in a sentence without the password", async () => {
  const url = `redis://:secret@127.0.0.1:${await lastingPort()}`;
  const { code, stdout, stderr } = await svc(["drain", "--timeout", "1"], { env: { KV_URL: url } });
  expect(stderr).toMatch(/^svc: The key-value store at 127\.0\.0\.1:\d+ cannot be used .*KV_URL/);
  expect(stderr).not.toContain("secret");
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
});

test("it starts without the parts of the program that only a service needs", async () => {
  const worker = await playedInstance();
  const listing = `data:text/javascript,import { registerHooks } from "node:module";
    registerHooks({ load: (url, context, next) => { if (url.startsWith("file:")) console.error(url); return next(url, context); } });`;
  const program = [
    process.execPath,
    "--import",
    listing,
    new URL("../../src/cli/main.ts", import.meta.url).pathname,
  ];
  const { code, stderr } = await svc(["drain"], { env: worker.env, program });
  expect(code).toBe(2);
  const loaded = stderr.split("\n").filter((line) => line.startsWith("file:"));
  expect(loaded.length).toBeGreaterThan(20);
  expect(
    loaded.filter((file) =>
      /orchestrator|\/hono\/|bullmq|modelcontextprotocol|octokit|pino|\/src\/(http|mcp|repos|agents|profiles|jobs)\//.test(
        file,
      ),
    ),
  ).toEqual([]);
});
