import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { livingAgents } from "./agents.ts";
import { post, saying } from "./asking.ts";

/* Processes are started ahead of need, kept for their conversation, bounded, and replaced when the agent changes. */

type Told = { pid: number; turn: number; session: string; resumed: boolean; model: string };

const ask = async (service: Service, conversation: string, model = "default"): Promise<Told> => {
  const headers = { "x-conversation-id": conversation };
  const text = await (await post(service, saying("scenario: echo {}", { model }), { headers })).text();
  const { choices } = JSON.parse(text) as { choices: { message: { content: string } }[] };
  return JSON.parse(choices[0]?.message.content ?? text) as Told;
};

/** Resolves when there are just so many. */
const agentsOf = (service: Service, count: number): Promise<number[]> =>
  until(
    async () => {
      const agents = await livingAgents(service);
      return agents.length === count ? agents : null;
    },
    { what: `${count} agents` },
  );

test("a new conversation gets the process that was started ahead, and another one takes its place; a turn on another model is of another process", async () => {
  // The agents tell their pids.
  const service = await startService({ env: { AGENT_MODE: "true", SERVICE_AGENT_SANDBOX: "off" } });
  const [spare] = await agentsOf(service, 1);
  const first = await ask(service, "a");
  expect(first).toMatchObject({ pid: spare, turn: 1, resumed: false });
  const two = await agentsOf(service, 2);
  expect(await ask(service, "b")).toMatchObject({ pid: two.find((pid) => pid !== spare), turn: 1 });
  expect(await ask(service, "a")).toMatchObject({ pid: spare, turn: 2 });

  // A turn on another model, and back, continues the session in another process.
  const told = [first, await ask(service, "a", "opus"), await ask(service, "a")];
  expect(told.map(({ model }) => model)).toEqual(["sonnet", "opus", "sonnet"]);
  for (const each of told.slice(1)) expect(each).toMatchObject({ session: first.session, resumed: true });
});

test("none is started without need, no more wait than are allowed, the longest unused go, and their conversations are resumed", async () => {
  const service = await startService({
    env: { AGENT_MODE: "true", AGENT_MODE_IDLE_PROCESSES: "2", AGENT_MODE_WARM_PROCESSES: "0" },
  });
  // A message of tokens alone, and what a chat UI asks on the side, start none.
  const title =
    '### Task:\nGenerate a title\n{ "title": "…" }\n<chat_history>\nUSER: Hello there\n</chat_history>';
  for (const text of ["/show-all /hide-tools", "/stream-status", title])
    expect((await post(service, saying(text))).status).toBe(200);
  expect(await livingAgents(service)).toEqual([]);
  const first = await ask(service, "1");
  expect(await livingAgents(service)).toHaveLength(1);
  for (const conversation of ["2", "3", "4"]) await ask(service, conversation);
  const left = await agentsOf(service, 2);
  expect(left).not.toContain(first.pid);
  expect(await ask(service, "1")).toMatchObject({ session: first.session, resumed: true });
});

test("a process that nobody has used for AGENT_MODE_KEEP_ALIVE goes", async () => {
  const env = { AGENT_MODE: "true", AGENT_MODE_KEEP_ALIVE: "1", AGENT_MODE_WARM_PROCESSES: "0" };
  const service = await startService({ env });
  await ask(service, "1");
  await agentsOf(service, 0);
});

test("when the agent's package changes, processes are replaced and conversations continue as the new agent", async () => {
  const hub = await temporaryDirectory();
  const agent = join(hub, "agents", "writer");
  const become = async (model: string): Promise<void> =>
    writeFile(join(agent, "agent.yml"), `claude:\n  model: ${model}\n`);
  await mkdir(join(agent, "package"), { recursive: true });
  await become("haiku");
  const service = await startService({
    env: { AGENT_MODE: "true", SERVICE_HUB_PATH: hub, HUB_AGENT: "writer" },
  });
  const before = await ask(service, "a", "writer");
  const [, spare] = await agentsOf(service, 2);
  await become("opus");
  const after = await until(async () => {
    const told = await ask(service, "a", "writer");
    return told.model === "opus" ? told : null;
  });
  expect(before.model).toBe("haiku");
  expect(after).toMatchObject({ session: before.session, resumed: true });
  await until(async () => !(await livingAgents(service)).includes(spare ?? 0));
  expect(await ask(service, "new", "writer")).toMatchObject({ model: "opus", turn: 1 });
});
