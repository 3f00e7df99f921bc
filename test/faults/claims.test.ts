import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { startRedis } from "../redis.ts";
import { temporaryDirectory } from "../temporary.ts";
import { startLossyProxy } from "./store-proxy.ts";
import { runsIn } from "./store-journal.ts";
import { createStoreWorld } from "./store-world.ts";

test("a job whose claim was done although the reply was lost is run, once, also when another instance takes it from the queue in the meantime", async () => {
  const redis = await startRedis();
  const proxy = await startLossyProxy(redis.port);
  const env = { SERVICE_INSTANCE_LEASE: "2", SERVICE_MAX_PARALLEL_JOBS: "1" };
  const world = await createStoreWorld({
    kvUrl: redis.url,
    directory: await temporaryDirectory(),
    names: [],
    env,
  });
  const a = await world.cluster.start("a", { env: { KV_URL: proxy.url } });
  await asks(a).run({ task: "scenario: noop" });
  const before = proxy.lost();
  proxy.loseAnswerTo('"pod_name":"a","worktree_path":null');
  const { id } = await asks(a).submit({ task: "scenario: noop" });
  await asks(a).when(id, ({ status }) => status === "running", "to be claimed");
  // Fills the one slot, so that the instance does not come back to the job by itself.
  const other = await submitInTime(a);
  await asks(a).when(other, ({ pid }) => pid !== null, "to run");
  const b = await world.cluster.start("b");
  expect(proxy.lost()).toBe(before + 1);
  expect(await asks(b).ended(id)).toMatchObject({ status: "succeeded" });
  expect((await runsIn(world.journal)).get(id)).toBe(1);
}, 90_000);

/** The store cannot be asked for a moment after its connection broke. */
const submitInTime = async (service: Parameters<typeof asks>[0]): Promise<string> => {
  for (;;) {
    const job = await asks(service)
      .submit({ task: "scenario: sleep" })
      .catch(() => null);
    if (job !== null) return job.id;
  }
};
