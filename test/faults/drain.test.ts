import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { chunksOf, kindsOf, post, saying } from "../chat/asking.ts";
import { startRedis } from "../redis.ts";
import { svcProgram, type Service } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runsIn } from "./store-journal.ts";
import { submitOnce } from "./store-submit.ts";
import { createStoreWorld, nth } from "./store-world.ts";

/** The instances of one cluster: each test goes on with those that the test before it has left. */
let world: Awaited<ReturnType<typeof createStoreWorld>>;

beforeAll(async () => {
  const { url: kvUrl } = await startRedis();
  const env = { SERVICE_MAX_PARALLEL_JOBS: "2", SERVICE_DRAIN_TIMEOUT: "60" };
  const directory = await temporaryDirectory();
  world = await createStoreWorld({ kvUrl, directory, names: ["i1", "i2", "i3"], env });
});

/** `svc drain` as a hook runs it, in the instance's own environment. `output` is filled while it runs. */
const svcDrain = async ({ env, home }: Service, output = { said: "" }) => {
  const [program, ...args] = [...svcProgram, "drain", "--timeout", "60"] as const;
  const child = spawn(program, args, { cwd: home, env, stdio: ["ignore", "ignore", "pipe"] });
  child.stderr.on("data", (data: Buffer) => (output.said += data.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, said: output.said, ended: Date.now() };
};

const readiness = async ({ url }: Service): Promise<number> => (await fetch(`${url}/ready`)).status;

const isNotReady = async (service: Service): Promise<boolean> => (await readiness(service)) === 503;

/** A task that goes on until it may finish. */
const goingOn = async () => {
  const file = join(world.controls, randomUUID());
  const task = `scenario: slow-deltas ${JSON.stringify({ rate: 20, until: file })}`;
  return { task, finish: () => writeFile(file, "") };
};

const agentMode = { AGENT_MODE: "true", AGENT_MODE_WARM_PROCESSES: "0" };

/** A task that goes on, in a repository, for longer than anybody waits for it. */
const endless = 'scenario: paced {"steps": 2000, "ms": 1000}';

const untilRun = (journal: string, ids: string[]) =>
  until(
    async () => {
      const runs = await runsIn(journal);
      return ids.every((id) => runs.has(id));
    },
    { what: "the agents to be at work" },
  );

const submitMany = (service: Service, count: number, task: string): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, async () => (await service.client.run_task({ task })).job.id));

test("two of three loaded instances are drained: nothing of theirs is cut, new work goes to the third, and one that is not stopped takes work again", async () => {
  const { services, journal } = world;
  const [first, second, third] = [nth(services, 0), nth(services, 1), nth(services, 2)];
  const before = await submitMany(third, 10, 'scenario: noop {"ms": 1500}');
  await until(async () => (await runsIn(journal)).size >= 6, { what: "all slots to be busy" });

  const drains = [svcDrain(first), svcDrain(second)];
  for (const service of [first, second]) {
    await until(() => isNotReady(service), { what: "the instance not to be ready" });
    expect(await submitOnce(service.url, { task: "scenario: noop" })).toMatchObject({
      id: null,
      status: 503,
      code: "draining",
      retryAfter: 10,
    });
  }
  const drained = new Date().toISOString();
  expect(await readiness(third)).toBe(200);
  const during = await submitMany(third, 4, "scenario: noop");
  const ended = await Promise.all(drains);
  expect(ended).toMatchObject([
    { code: 0, said: expect.stringContaining("i1 runs no job") as string },
    { code: 0, said: expect.stringContaining("i2 runs no job") as string },
  ]);
  // Nothing begins on them between the end of the hook and the signal that follows it.
  const after = await submitMany(third, 2, "scenario: noop");
  expect(await first.stop()).toBe(0);

  const jobs = await Promise.all([...before, ...during, ...after].map((id) => asks(third).ended(id)));
  const shares = new Set(jobs.map(({ pod_name }) => pod_name));
  expect(jobs.filter(({ status, attempt }) => status !== "succeeded" || attempt !== 1)).toEqual([]);
  expect(await runsIn(journal)).toEqual(new Map(jobs.map(({ id }) => [id, 1])));
  const begun = jobs.filter(({ started_at }) => (started_at ?? "") > drained);
  for (const [at, { ended: end }] of ended.entries()) {
    const atRest = new Date(end + 5000).toISOString();
    const itsOwn = begun.filter(({ pod_name }) => pod_name === `i${at + 1}`);
    expect(itsOwn.filter(({ started_at }) => (started_at ?? "") < atRest)).toEqual([]);
  }
  expect(begun.map(({ pod_name }) => pod_name)).toContain("i3");
  expect(shares).toEqual(new Set(["i1", "i2", "i3"]));

  await until(async () => !(await isNotReady(second)), { what: "i2 to be ready again" });
  const more = await submitMany(second, 6, 'scenario: noop {"ms": 300}');
  const again = await Promise.all(more.map((id) => asks(second).ended(id)));
  expect(again.map(({ pod_name }) => pod_name)).toContain("i2");
});

test("SIGTERM alone drains: what runs comes to its end, what waits is run by the others, no new work is taken", async () => {
  const { services, journal } = world;
  const [second, third] = [nth(services, 1), nth(services, 2)];
  const { task, finish } = await goingOn();
  const running = await submitMany(third, 4, task);
  await untilRun(journal, running);
  const waiting = await submitMany(third, 2, "scenario: noop");
  const stopped = second.stop();
  await until(() => isNotReady(second), { what: "i2 not to be ready" });
  expect(await submitOnce(second.url, { task: "scenario: noop" })).toMatchObject({
    status: 503,
    code: "draining",
  });
  await finish();
  expect(await stopped).toBe(0);
  const ended = await Promise.all([...running, ...waiting].map((id) => asks(third).ended(id)));
  expect(ended.filter(({ status, attempt }) => status !== "succeeded" || attempt !== 1)).toEqual([]);
  const pods = ended.map(({ pod_name }) => String(pod_name));
  expect(pods.slice(0, 4).toSorted()).toEqual(["i2", "i2", "i3", "i3"]);
  expect(pods.slice(4)).toEqual(["i3", "i3"]);
  const runs = await runsIn(journal);
  expect(ended.map(({ id }) => runs.get(id))).toEqual(ended.map(() => 1));
});

test("a second SIGTERM, and the end of SERVICE_DRAIN_TIMEOUT, end what still runs, in order: its work is saved and the job says so", async () => {
  const { services, cluster, remote } = world;
  const third = nth(services, 2);
  const submission = { task: endless, repo_url: remote.path };
  const speaking = async (service: Service) => {
    const { id } = await asks(service).submit(submission);
    return await asks(service).speaking(id);
  };
  const saved = (id: string) => ({
    status: "failed",
    failure_reason: "instance_lost",
    retryable: true,
    attempt: 1,
    salvage_ref: expect.stringContaining(id.slice(0, 8)) as string,
  });
  const onThird = [await speaking(third), await speaking(third)];
  const fourth = await cluster.start("i4", { env: { SERVICE_DRAIN_TIMEOUT: "1" } });
  // All slots of the third are taken.
  const onFourth = await speaking(fourth);
  expect(onFourth.pod_name).toBe("i4");

  process.kill(third.pid, "SIGTERM");
  await until(() => isNotReady(third), { what: "i3 to drain" });
  expect(await third.stop()).toBe(0);
  for (const { id } of onThird) expect(await asks(fourth).ended(id)).toMatchObject(saved(id));

  const env = { ...agentMode, SERVICE_DRAIN_TIMEOUT: "0" };
  const fifth = await cluster.start("i5", { env });
  services.push(fifth);
  expect(await fourth.stop()).toBe(0);
  expect(await asks(fifth).ended(onFourth.id)).toMatchObject(saved(onFourth.id));
});

test("svc drain waits for a chat turn and a completion, so that a SIGTERM after it cuts neither", async () => {
  const last = nth(world.services, 3);
  const { task: slow, finish } = await goingOn();
  await last.client.agent_completions({ uuid: "long", message: slow, wait: false });
  const chunks = chunksOf(await post(last, saying(slow, { stream: true })));
  await chunks.next();
  const output = { said: "" };
  const drain = svcDrain(last, output);
  await until(() => isNotReady(last), { what: "the instance not to be ready" });
  const { instances } = await until(async () => {
    const overview = await last.client.list_instances();
    return overview.instances[0]?.draining === true ? overview : null;
  });
  expect(instances).toMatchObject([{ name: "i5", draining: true, running: 0, turns: 2 }]);
  await until(() => output.said.includes("2 turns"), { what: "the drain to say what it waits for" });
  const rest = Array.fromAsync(chunks);
  await finish();
  expect(await drain).toMatchObject({ code: 0 });
  expect((await last.client.get_completion({ uuid: "long" })).completion.status).toBe("completed");
  expect(await last.stop()).toBe(0);
  expect(kindsOf(await rest).at(-1)).toBe("stop");
});
