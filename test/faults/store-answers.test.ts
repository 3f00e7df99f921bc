import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runsIn } from "./store-journal.ts";
import { startLossyProxy } from "./store-proxy.ts";
import { submitOnce } from "./store-submit.ts";
import { createStoreWorld, nth, startPromptRedis } from "./store-world.ts";

type World = Awaited<ReturnType<typeof createStoreWorld>>;

let redis: Awaited<ReturnType<typeof startPromptRedis>>;
let world: World;
let proxy: Awaited<ReturnType<typeof startLossyProxy>>;

beforeAll(async () => {
  redis = await startPromptRedis();
  proxy = await startLossyProxy(redis.port);
  world = await createStoreWorld({
    kvUrl: proxy.url,
    directory: await temporaryDirectory(),
    names: ["i1"],
    env: { SERVICE_MAX_PARALLEL_JOBS: "1" },
  });
  // The store has all scripts then: one that it must be sent first is refused, which is no answer to lose.
  const jobs = asks(nth(world.services, 0));
  await jobs.run({ task: "scenario: noop" });
  const { id } = await jobs.submit({ task: "scenario: sleep" });
  await jobs.speaking(id);
  await nth(world.services, 0).client.cancel_job({ job_id: id });
});

/** The store cannot be asked for a moment after its connection broke. */
const submitInTime = async (task: string, key: string = randomUUID()): Promise<string> => {
  const submission = () => submitOnce(nth(world.services, 0).url, { task }, key);
  const answer = await until(
    async () => {
      const { id } = await submission();
      return id === null ? null : { id };
    },
    { what: "the submission to be taken" },
  );
  return answer.id;
};

/** What the service writes when it does this, and nobody else then. */
const moments: Record<string, string> = {
  "took the job out of the queue": "lockDuration",
  "claimed the job": '"status":"running"',
  "recorded the agent's process": '"job_config_dir":"/',
  "wrote how the job ended": '"status":"succeeded"',
  "ended the job's events": '"detail":"succeeded"',
};

for (const [what, text] of Object.entries(moments)) {
  test(`a job ends well, once, and its events come to an end, when the store's answer is lost as the instance ${what}`, async () => {
    const service = nth(world.services, 0);
    const before = proxy.lost();
    proxy.loseAnswerTo(text);
    const id = await submitInTime("scenario: noop");
    expect(await asks(service).ended(id)).toMatchObject({ status: "succeeded", attempt: 1 });
    // The connection that the answer was lost with may not be back yet.
    const events = await until(async () => {
      const answer = await fetch(`${service.url}/jobs/${id}/events`, {
        signal: AbortSignal.timeout(100_000),
      });
      return answer.ok && answer.text();
    });
    expect(events).toContain('"detail":"succeeded"');
    expect((await runsIn(world.journal)).get(id)).toBe(1);
    expect(proxy.lost()).toBe(before + 1);
  });
}

test("a submission whose answer is lost is refused, and asked again with its Idempotency-Key names the job that runs once", async () => {
  const service = nth(world.services, 0);
  proxy.loseAnswerTo('"status":"queued"');
  const body = { task: "scenario: noop" };
  expect(await submitOnce(service.url, body, "lost")).toMatchObject({
    status: 503,
    code: "store_unavailable",
  });
  const id = await submitInTime(body.task, "lost");
  expect(await asks(service).ended(id)).toMatchObject({ status: "succeeded" });
  const { jobs } = await service.client.list_jobs({ limit: 100 });
  expect(
    jobs.filter(({ created_at }) => created_at >= (jobs.find((job) => job.id === id)?.created_at ?? "")),
  ).toHaveLength(1);
  expect((await runsIn(world.journal)).get(id)).toBe(1);
});

test("a job that is cancelled before the instance knows that it has claimed it ends for its readers, and no agent gets it", async () => {
  const service = nth(world.services, 0);
  const jobs = asks(service);
  const before = proxy.lost();
  proxy.loseAnswerTo('"status":"running"');
  const { id } = await jobs.submit({ task: "scenario: noop" });
  await jobs.when(id, ({ status }) => status === "running", "to be claimed");
  await service.client.cancel_job({ job_id: id });
  const events = await fetch(`${service.url}/jobs/${id}/events`, { signal: AbortSignal.timeout(100_000) });
  expect(await events.text()).toContain('"detail":"cancelled"');
  expect(await jobs.get(id)).toMatchObject({ status: "cancelled", pid: null });
  expect(proxy.lost()).toBe(before + 1);
  expect((await runsIn(world.journal)).get(id)).toBeUndefined();
});

test("a job whose claim was done although the reply was lost is run, once, also when another instance takes it from the queue in the meantime", async () => {
  const a = nth(world.services, 0);
  const before = proxy.lost();
  proxy.loseAnswerTo('"pod_name":"i1","worktree_path":null');
  const id = await submitInTime("scenario: noop");
  await asks(a).when(id, ({ status }) => status === "running", "to be claimed");
  // Fills the one slot, so that the instance does not come back to the job by itself.
  const other = await submitInTime("scenario: sleep");
  await asks(a).when(other, ({ pid }) => pid !== null, "to run");
  const b = await world.cluster.start("i2", { env: { KV_URL: redis.url } });
  expect(proxy.lost()).toBe(before + 1);
  expect(await asks(b).ended(id)).toMatchObject({ status: "succeeded" });
  expect((await runsIn(world.journal)).get(id)).toBe(1);
});
