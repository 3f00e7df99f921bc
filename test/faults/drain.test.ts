import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { chunksOf, kindsOf, post, saying } from "../chat/asking.ts";
import { startRedis } from "../redis.ts";
import { svcProgram, type Service } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runsIn } from "./store-journal.ts";
import { submitOnce } from "./store-submit.ts";
import { createStoreWorld, nth } from "./store-world.ts";

const startWorld = async (names: string[], env: Record<string, string>) => {
  const { url: kvUrl } = await startRedis();
  return await createStoreWorld({ kvUrl, directory: await temporaryDirectory(), names, env });
};

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
  const file = join(await temporaryDirectory(), "finish");
  const task = `scenario: slow-deltas ${JSON.stringify({ rate: 20, until: file })}`;
  return { task, finish: () => writeFile(file, "") };
};

const submitMany = (service: Service, count: number, task: string): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, async () => (await service.client.run_task({ task })).job.id));

test("two of three loaded instances are drained: nothing of theirs is cut, new work goes to the third, and one that is not stopped takes work again", async () => {
  const env = { SERVICE_MAX_PARALLEL_JOBS: "2", SERVICE_DRAIN_TIMEOUT: "60" };
  const { services, journal } = await startWorld(["i1", "i2", "i3"], env);
  const [first, second, third] = [nth(services, 0), nth(services, 1), nth(services, 2)];
  const before = await submitMany(third, 14, 'scenario: noop {"ms": 1500}');
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
  const shares = Object.groupBy(jobs, ({ pod_name }) => pod_name ?? "none");
  const tally = Object.fromEntries(Object.entries(shares).map(([pod, ran]) => [pod, ran?.length]));
  process.stdout.write(`drained under load: ${JSON.stringify(tally)}\n`);
  expect(jobs.filter(({ status, attempt }) => status !== "succeeded" || attempt !== 1)).toEqual([]);
  expect(await runsIn(journal)).toEqual(new Map(jobs.map(({ id }) => [id, 1])));
  const begun = jobs.filter(({ started_at }) => (started_at ?? "") > drained);
  for (const [at, { ended: end }] of ended.entries()) {
    const atRest = new Date(end + 5000).toISOString();
    const itsOwn = begun.filter(({ pod_name }) => pod_name === `i${at + 1}`);
    expect(itsOwn.filter(({ started_at }) => (started_at ?? "") < atRest)).toEqual([]);
  }
  expect(begun.map(({ pod_name }) => pod_name)).toContain("i3");
  expect(shares["i1"]?.length).toBeGreaterThan(0);
  expect(shares["i2"]?.length).toBeGreaterThan(0);

  await until(async () => !(await isNotReady(second)), { seconds: 30, what: "i2 to be ready again" });
  const more = await submitMany(second, 8, 'scenario: noop {"ms": 300}');
  const again = await Promise.all(more.map((id) => asks(second).ended(id)));
  expect(again.map(({ pod_name }) => pod_name)).toContain("i2");
}, 120_000);

test.concurrent("SIGTERM alone drains: what runs comes to its end, what waits is run by the others, no new work is taken", async () => {
  const env = { SERVICE_MAX_PARALLEL_JOBS: "1", SERVICE_DRAIN_TIMEOUT: "60" };
  const { services, journal, cluster } = await startWorld(["i1"], env);
  const first = nth(services, 0);
  const { task, finish } = await goingOn();
  const [running = "", waiting = ""] = [
    ...(await submitMany(first, 1, task)),
    ...(await submitMany(first, 1, "scenario: noop")),
  ];
  await until(async () => (await runsIn(journal)).has(running), { what: "the agent to be at work" });
  const second = await cluster.start("i2");
  const stopped = first.stop();
  await until(() => isNotReady(first), { what: "i1 not to be ready" });
  expect(await submitOnce(first.url, { task: "scenario: noop" })).toMatchObject({
    status: 503,
    code: "draining",
  });
  await finish();
  expect(await stopped).toBe(0);
  expect(await asks(second).ended(running)).toMatchObject({
    status: "succeeded",
    pod_name: "i1",
    attempt: 1,
  });
  expect(await asks(second).ended(waiting)).toMatchObject({
    status: "succeeded",
    pod_name: "i2",
    attempt: 1,
  });
  expect(await runsIn(journal)).toEqual(new Map([running, waiting].map((id) => [id, 1])));
}, 120_000);

test.concurrent("svc drain waits for a chat turn and a completion, so that a SIGTERM after it cuts neither", async () => {
  const env = { AGENT_MODE: "true", AGENT_MODE_WARM_PROCESSES: "0", SERVICE_DRAIN_TIMEOUT: "0" };
  const { services } = await startWorld(["i1"], env);
  const first = nth(services, 0);
  const { task: slow, finish } = await goingOn();
  await first.client.agent_completions({ uuid: "long", message: slow, wait: false });
  const chunks = chunksOf(await post(first, saying(slow, { stream: true })));
  await chunks.next();
  const output = { said: "" };
  const drain = svcDrain(first, output);
  await until(() => isNotReady(first), { what: "the instance not to be ready" });
  const { instances } = await until(async () => {
    const overview = await first.client.list_instances();
    return overview.instances[0]?.draining === true ? overview : null;
  });
  expect(instances).toMatchObject([{ name: "i1", draining: true, running: 0, turns: 2 }]);
  await until(() => output.said.includes("2 turns"), { what: "the drain to say what it waits for" });
  const rest = Array.fromAsync(chunks);
  await finish();
  expect(await drain).toMatchObject({ code: 0 });
  expect((await first.client.get_completion({ uuid: "long" })).completion.status).toBe("completed");
  expect(await first.stop()).toBe(0);
  expect(kindsOf(await rest).at(-1)).toBe("stop");
}, 120_000);

for (const [how, drainTimeout, signals] of [
  ["a second SIGTERM", "60", 2],
  ["the end of SERVICE_DRAIN_TIMEOUT", "1", 1],
] as const) {
  test.concurrent(`${how} ends what still runs, in order: its work is saved and the job says so`, async () => {
    const { services, remote, journal } = await startWorld(["i1", "i2"], {
      SERVICE_DRAIN_TIMEOUT: drainTimeout,
      SERVICE_MAX_PARALLEL_JOBS: "1",
    });
    const task = 'scenario: paced {"steps": 200, "ms": 150}';
    const { job } = await nth(services, 0).client.run_task({ task, repo_url: remote.path });
    const at = asks(nth(services, 0));
    const { pod_name } = await at.speaking(job.id);
    await until(async () => (await runsIn(journal)).size === 1);
    const owner = services.find(({ env }) => env["SERVICE_POD_NAME"] === pod_name) ?? nth(services, 0);
    const other = services.find((service) => service !== owner) ?? nth(services, 1);
    if (signals === 2) {
      process.kill(owner.pid, "SIGTERM");
      await until(() => isNotReady(owner), { what: "the owner to drain" });
    }
    expect(await owner.stop()).toBe(0);
    const ended = await asks(other).ended(job.id);
    expect(ended).toMatchObject({
      status: "failed",
      failure_reason: "instance_lost",
      retryable: true,
      attempt: 1,
      salvage_ref: expect.stringContaining(job.id.slice(0, 8)) as string,
    });
  }, 120_000);
}
