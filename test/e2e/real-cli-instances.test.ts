import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createCluster } from "../cluster.ts";
import { startFakeModel, type FakeModel } from "../fake-model/fake-model.ts";
import { startRedis } from "../redis.ts";
import { makeRemote } from "../remote.ts";
import type { Service } from "../service.ts";
import { until } from "../until.ts";

let model: FakeModel;

beforeAll(async () => {
  model = await startFakeModel({ token: "model-token" });
});
afterAll(() => model.close());

test("a session of the real CLI continues where its worktree is, and on another instance once that one is lost", async () => {
  const cluster = await createCluster({
    kvUrl: (await startRedis()).url,
    env: {
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "../../node_modules/.bin/claude"),
      MODEL_API_BASE_URL: model.url,
      MODEL_API_AUTH_TOKEN: "model-token",
      SERVICE_LOST_INSTANCE_GRACE: "1",
    },
  });
  const services = new Map<string, Service>();
  for (const name of ["svc-0", "svc-1"]) services.set(name, await cluster.start(name));
  const remote = await makeRemote();
  const any = services.values().next().value as Service;
  const say = (text: string): string => `scenario: text ${JSON.stringify({ text })}`;
  const first = await any.client.run_task({
    task: say("The word is heliotrope."),
    repo_url: remote.path,
    wait: true,
  });
  expect(first.job).toMatchObject({ status: "succeeded", exit_code: 0, error: null, num_turns: 2 });
  expect([/sonnet/.test(String(first.job.model)), (first.job.usage?.output_tokens ?? 0) > 0]).toEqual([
    true,
    true,
  ]);
  const home = String(first.job.pod_name);
  const [elsewhere] = [...services].filter(([name]) => name !== home);
  if (elsewhere === undefined) throw new Error("there are two instances");
  const [other, service] = elsewhere;
  const resumed = { session_id: String(first.job.session_id), wait: true };

  const second = await service.client.run_task({ task: say("As I said."), ...resumed });
  expect(second.job).toMatchObject({ status: "succeeded", pod_name: home, output: "As I said." });

  await services.get(home)?.kill();
  await until(async () => (await service.client.list_instances({})).count === 1);
  const third = await until(async () => {
    const { job } = await service.client.run_task({ task: say("Once more."), ...resumed });
    return job.pod_name === other && job;
  });
  expect(third).toMatchObject({
    status: "succeeded",
    output: "Once more.",
    session_id: first.job.session_id,
  });
  expect(JSON.stringify(model.requests.at(-1)?.body)).toContain("heliotrope");
});
