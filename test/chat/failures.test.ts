import { expect, test } from "vitest";
import { createCluster, lease } from "../cluster.ts";
import { startRedis } from "../redis.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { allChunks, chunksOf, kindsOf, post, saying } from "./asking.ts";

test("a missing agent CLI is reported with its status before the first byte, and as an error in a stream", async () => {
  const service = await startService({
    env: { AGENT_MODE: "true", SERVICE_AGENT_CLI_BINARY: "/nonexistent/claude" },
  });
  const whole = await post(service, saying("hello"));
  expect(whole.status).toBe(500);
  expect(whole.headers.get("x-should-retry")).toBe("false");
  expect(await whole.json()).toMatchObject({ error: { code: "agent_not_found", type: "server_error" } });
  const streamed = await post(service, saying("hello", { stream: true })).then(allChunks);
  expect(kindsOf(streamed)).toEqual(["role", "error agent_not_found"]);
});

test("an answer continues while the store is unreachable; new ones are refused until it is back", async () => {
  const redis = await startRedis();
  const cluster = await createCluster({ kvUrl: redis.url, env: { AGENT_MODE: "true" } });
  const service = await cluster.start("svc-0");
  const headers = { "x-conversation-id": "a" };
  await post(service, saying("scenario: echo {}"), { headers });
  // Longer than the lease of the conversation's lock.
  const slow = saying('scenario: slow-deltas {"count": 60, "rate": 10}', {
    stream: true,
    metadata: { live_text: "true" },
  });
  const running = chunksOf(await post(service, slow, { headers }));
  // The role comes before the agent is asked, the second chunk from the agent.
  for (const _ of [1, 2]) await running.next();
  await redis.kill();
  const gone = performance.now();
  const refused = await until(async () => {
    const response = await post(service, saying("scenario: echo {}"));
    return response.status === 503 ? response : null;
  });
  expect(await refused.json()).toMatchObject({ error: { code: "store_unavailable" } });
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  // The lock of the conversation has lapsed by then: it is taken again.
  await until(() => performance.now() - gone > (lease + 1) * 1000);
  await redis.restart();
  expect(kindsOf(await Array.fromAsync(running)).at(-1)).toBe("stop");
  await until(async () => (await post(service, saying("scenario: echo {}"), { headers })).status === 200);
});
