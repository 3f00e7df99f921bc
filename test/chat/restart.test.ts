import { expect, test } from "vitest";
import { isRunning } from "../processes.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { livingAgents } from "./agents.ts";
import { allChunks, chunksOf, kindsOf, post, saying } from "./asking.ts";

const headers = { "x-conversation-id": "kept" };
const env = { AGENT_MODE: "true" };

test("with a drain timeout it lets answers finish", async () => {
  const service = await startService({ env: { ...env, SERVICE_DRAIN_TIMEOUT: "30" } });
  const response = await post(
    service,
    saying('scenario: slow-deltas {"count": 30, "rate": 30}', { stream: true }),
  );
  const chunks = chunksOf(response);
  await chunks.next();
  const stopped = service.stop();
  expect(kindsOf(await Array.fromAsync(chunks)).at(-1)).toBe("stop");
  expect(await stopped).toBe(0);
});

test("a conversation and the visibility outlive a crash of the service, its processes do not; at its end it ends streams with an error", async () => {
  const home = await temporaryDirectory();
  const first = await startService({ home, env });
  await post(first, saying("/hide-thinking"));
  const before = await answerOf(await post(first, saying("scenario: echo {}"), { headers }));
  const agents = await livingAgents(first);
  await first.kill();
  const second = await startService({ home, env });
  await until(() => agents.every((pid) => !isRunning(pid)));
  const after = await answerOf(await post(second, saying("scenario: echo {}"), { headers }));
  expect(after).toMatchObject({ session: before["session"], cwd: before["cwd"], resumed: true });
  const thinking = saying('scenario: chat {"steps": [{"thinking": "hm"}, {"text": "so"}]}', { stream: true });
  expect(kindsOf(await post(second, thinking).then(allChunks))).toEqual(["role", "final", "stop"]);

  const response = await post(second, saying("scenario: sleep {}", { stream: true }));
  const chunks = chunksOf(response);
  await chunks.next();
  const running = await until(async () => {
    const living = await livingAgents(second);
    return living.length > 1 ? living : null;
  });
  const stopped = second.stop();
  expect(kindsOf(await Array.fromAsync(chunks)).at(-1)).toBe("error draining");
  expect(await stopped).toBe(0);
  expect(running.filter(isRunning)).toEqual([]);
});

const answerOf = async (response: Response): Promise<Record<string, unknown>> => {
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
  return JSON.parse(choices[0]?.message.content ?? "") as Record<string, unknown>;
};
