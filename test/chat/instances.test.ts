import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { createCluster } from "../cluster.ts";
import { startRedis } from "../redis.ts";
import type { Service } from "../service.ts";
import { until } from "../until.ts";
import { livingAgents } from "./agents.ts";
import { allChunks, chunksOf, kindsOf, post, saying, type Body } from "./asking.ts";

/* Two instances that share a store and a file system: whichever is asked, a conversation is one. */

let one: Service;
let two: Service;
beforeAll(async () => {
  const cluster = await createCluster({ kvUrl: (await startRedis()).url, env: { AGENT_MODE: "true" } });
  const env = { AGENT_MODE_WORKSPACES: join(cluster.shared, "workspaces") };
  [one, two] = await Promise.all([cluster.start("svc-0", { env }), cluster.start("svc-1", { env })]);
});

const headers = { "x-conversation-id": "shared" };
const told = async (service: Service, body: Body): Promise<Record<string, unknown>> => {
  const text = await (await post(service, body, { headers })).text();
  const { choices } = JSON.parse(text) as { choices: { message: { content: string } }[] };
  return JSON.parse(choices[0]?.message.content ?? "") as Record<string, unknown>;
};
const echo = saying("scenario: echo {}");

test("a conversation continues its session on every instance, and no process is behind", async () => {
  const first = await told(one, echo);
  const second = await told(two, echo);
  const third = await told(one, echo);
  expect(second).toMatchObject({ session: first["session"], cwd: first["cwd"], resumed: true });
  // The first instance has kept a process that knows nothing of the second turn: it must not be used.
  expect(third).toMatchObject({ session: first["session"], resumed: true, earlierPrompts: 2 });
});

test("two instances asked at once answer one after the other", async () => {
  const leaving = new AbortController();
  const running = chunksOf(
    await post(one, saying("scenario: sleep {}", { stream: true }), { headers, signal: leaving.signal }),
  );
  await running.next();
  const impatient = await post(two, saying("scenario: echo {}", { timeout: 1 }), { headers });
  expect(impatient.status).toBe(409);
  const patient = told(two, echo);
  leaving.abort();
  expect(await patient).toMatchObject({ resumed: true });
});

test("visibility set through one instance counts in the other", async () => {
  await post(one, saying("/hide-thinking"));
  const thinking = saying('scenario: chat {"steps": [{"thinking": "hm"}, {"text": "so"}]}', { stream: true });
  expect(kindsOf(await post(two, thinking).then(allChunks))).toEqual(["role", "final", "stop"]);
  await post(two, saying("/show-all"));
});

test("a completion can be watched, got and cancelled through another instance", async () => {
  await one.client.agent_completions({ uuid: "far", message: "scenario: sleep", wait: false });
  const events = await fetch(`${two.url}/completions/far/events`);
  const reader = events.body?.pipeThrough(new TextDecoderStream()).getReader();
  let seen = "";
  await until(async () => (seen += (await reader?.read())?.value ?? "").includes("assistant_text"));
  expect((await two.client.get_completion({ uuid: "far" })).completion.status).toBe("running");
  expect((await two.client.cancel_completion({ uuid: "far" })).completion.status).toBe("cancelled");
  await until(async () => (seen += (await reader?.read())?.value ?? "").includes("event: done"));
  expect((await one.client.get_completion({ uuid: "far" })).completion).toMatchObject({
    status: "cancelled",
    is_error: true,
  });
});

test("a completion of an instance that was killed is reported as lost, and its conversation continues on another instance", async () => {
  const { session_id: session } = await one.client.agent_completions({
    uuid: "lost",
    message: "scenario: noop",
  });
  await one.client.agent_completions({ uuid: "lost", message: "scenario: sleep", wait: false });
  await until(async () => (await livingAgents(one)).length > 1);
  await one.kill();
  const lost = await until(async () => {
    const { completion } = await two.client.get_completion({ uuid: "lost" });
    return completion.status === "failed" ? completion : null;
  });
  expect(lost.error_code).toBe("instance_lost");
  const again = await two.client.agent_completions({ uuid: "lost", message: "scenario: noop" });
  expect(again).toMatchObject({ success: true, session_id: session });
});
