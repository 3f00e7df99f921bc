import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { startRedisCluster } from "../redis-cluster.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { runsIn } from "./store-journal.ts";
import { submitOnce } from "./store-submit.ts";
import { createStoreWorld, nth } from "./store-world.ts";

test("the service works on a Redis Cluster, from submission to drain, and continues after a node of it was unreachable", async () => {
  const redis = await startRedisCluster();
  const world = await createStoreWorld({
    kvUrl: redis.url,
    directory: await temporaryDirectory(),
    names: ["i1", "i2"],
    env: { SERVICE_MAX_PARALLEL_JOBS: "2", SERVICE_DRAIN_TIMEOUT: "30" },
  });
  const { services, remote, journal } = world;
  const [first, second] = [nth(services, 0), nth(services, 1)];
  const [onFirst, onSecond] = [asks(first), asks(second)];

  const done = await onFirst.run({ task: "scenario: work", repo_url: remote.path });
  expect(done).toMatchObject({ status: "succeeded", attempt: 1 });
  expect(await remote.branches()).toContain(done.branch);

  // Events and cancel through the instance that does not run it.
  const running = await onFirst.submit({ task: "scenario: sleep" });
  const { pod_name } = await onFirst.speaking(running.id);
  const other = pod_name === "i1" ? second : first;
  const followed = fetch(`${other.url}/jobs/${running.id}/events`, { signal: AbortSignal.timeout(100_000) });
  const events = await followed;
  await other.client.cancel_job({ job_id: running.id });
  const text = await events.text();
  expect(text).toContain('"type":"text"');
  expect(text).toContain('"detail":"cancelled"');

  const { worktree } = await first.client.prepare_worktree({ repo_url: remote.path });
  await until(
    async () => {
      const { worktrees } = await second.client.list_worktrees();
      return worktrees.some(
        ({ worktree_id, status }) => worktree_id === worktree.worktree_id && status === "ready",
      );
    },
    { what: "the other instance to see the worktree ready" },
  );
  const inWorktree = await onSecond.run({ task: "scenario: work", worktree_id: worktree.worktree_id });
  expect(inWorktree).toMatchObject({
    status: "succeeded",
    worktree_id: worktree.worktree_id,
    pod_name: "i1",
  });

  const key = "once";
  const [one, two] = await Promise.all(
    services.map(({ url }) => submitOnce(url, { task: "scenario: noop" }, key)),
  );
  expect(one?.id).toBe(two?.id);

  const jobs = await Promise.all(
    Array.from({ length: 4 }, () => onSecond.submit({ task: 'scenario: noop {"ms": 1500}' })),
  );
  await until(async () => (await runsIn(journal)).has(jobs[0]?.id ?? ""), { what: "an agent to be at work" });
  for (const node of redis.nodes) {
    await node.kill("SIGTERM");
    await node.restart();
  }
  expect(await first.stop()).toBe(0);
  const ended = await Promise.all(jobs.map(({ id }) => onSecond.ended(id)));
  expect(ended.filter(({ status, attempt }) => status !== "succeeded" || attempt !== 1)).toEqual([]);
  const runs = await runsIn(journal);
  expect([...runs].filter(([, count]) => count !== 1)).toEqual([]);
});

test("an instance of a cluster whose nodes have stopped answering ends when it is told to", async () => {
  const redis = await startRedisCluster();
  const directory = await temporaryDirectory();
  const { services } = await createStoreWorld({ kvUrl: redis.url, directory, names: ["i1"] });
  for (const node of redis.nodes) node.freeze();
  // Until the client asks the nodes, every 5 s, who has what, and gets no answer.
  await delay(6000);
  expect(await nth(services, 0).stop()).toBe(0);
});
