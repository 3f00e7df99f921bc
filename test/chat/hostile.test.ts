import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { agentProcesses } from "../processes.ts";
import { startService, type Service } from "../service.ts";
import { until } from "../until.ts";
import { livingAgents } from "./agents.ts";
import { chunksOf, post, saying, type Body } from "./asking.ts";

/* Callers that leave at bad moments, and processes that die at bad moments. */

let service: Service;
beforeAll(async () => {
  service = await startService({
    env: {
      AGENT_MODE: "true",
      // The agents tell their pids.
      SERVICE_AGENT_SANDBOX: "off",
      AGENT_MODE_WARM_PROCESSES: "0",
      AGENT_MODE_IDLE_PROCESSES: "1",
      SERVICE_AGENT_CLI_KILL_GRACE: "300",
    },
  });
});

type Told = {
  session: string;
  prompt: string;
  turn: number;
  pid: number;
  earlierPrompts: number;
  resumed: boolean;
};

const inConversation = (id: string) => ({ "x-conversation-id": id });
const ask = async (body: Body, conversation: string): Promise<Told> => {
  const text = await (await post(service, body, { headers: inConversation(conversation) })).text();
  const { choices = [], error } = JSON.parse(text) as {
    choices?: { message: { content: string } }[];
    error?: object;
  };
  if (error !== undefined) throw new Error(text);
  return JSON.parse(choices[0]?.message.content ?? text) as Told;
};
const echo = saying("scenario: echo {}");

/** Asks, and is gone again after that many milliseconds. */
const askAndLeave = async (body: Body, conversation: string, ms: number): Promise<void> => {
  const signal = AbortSignal.timeout(ms);
  const response = post(
    service,
    { ...body, stream: true },
    { headers: inConversation(conversation), signal },
  );
  await response.then((answer) => answer.text()).catch(() => undefined);
};

test("who leaves before the agent got anything loses nothing of the conversation", async () => {
  const history: Body = {
    messages: [
      { role: "user", content: "The word is heron." },
      { role: "assistant", content: "Noted." },
      { role: "user", content: "scenario: echo {}" },
    ],
  };
  for (const [index, ms] of [0, 1, 2, 3, 4, 6].entries()) {
    await askAndLeave(history, `lost-${index}`, ms);
    const { prompt, turn, earlierPrompts } = await ask(history, `lost-${index}`);
    expect(prompt.includes("heron") || turn > 1 || earlierPrompts > 0).toBe(true);
  }
});

test("a conversation answers after any number of callers who left or cancelled, and nothing is left over", async () => {
  const scenarios = ["sleep {}", "hang", "interrupt-deaf", "die {}", 'slow-deltas {"count": 5}', "noop"];
  for (const [index, scenario] of scenarios.entries()) {
    await askAndLeave(saying(`scenario: ${scenario}`), "stressed", 10 + 30 * index);
    const response = await post(service, saying(`scenario: ${scenario}`, { stream: true }), {
      headers: inConversation("stressed"),
    });
    const chunks = chunksOf(response);
    const id = (await chunks.next()).value?.id ?? "";
    await fetch(`${service.url}/v1/chat/completions/${id}/cancel`, { method: "POST" });
    await chunks.return();
    await response.body?.cancel().catch(() => undefined);
    expect((await ask(echo, "stressed")).pid).toBeGreaterThan(0);
  }
  await until(async () => (await metrics()).includes("svc_chat_turns 0"));
  await until(async () => (await livingAgents(service)).length === 1);
  await until(async () => (await readdir(join(service.home, ".service", "jobs-config"))).length === 1, {
    what: "the configurations of ended processes to go",
  });
});

test("a kept process that is killed is not noticed by the next message", async () => {
  const { pid, session } = await ask(echo, "killed");
  const before = await until(async () => {
    const record = await recordOf(session);
    return record.answers.length === 1 ? record : null;
  });
  // It cannot take up the message any more; that it has been given it is told by the record.
  process.kill(pid, "SIGSTOP");
  const answer = ask(echo, "killed");
  await until(async () => (await recordOf(session)).updated_at !== before.updated_at);
  process.kill(pid, "SIGKILL");
  expect(await answer).toMatchObject({ resumed: true, earlierPrompts: 1 });
});

test("a process that takes its time to end holds up no other conversation", async () => {
  await post(service, saying('scenario: grandchildren {"deaf": true, "then": "result"}'), {
    headers: inConversation("slow to end"),
  }).then((response) => response.text());
  const first = await ask(echo, "quick");
  const again = ask(echo, "quick");
  // There is one too many now, which is given five minutes to end.
  expect(await again).toMatchObject({ turn: 2, pid: first.pid });
  const own = await readdir(join(service.home, ".service", "jobs-config"));
  for (const { pid, job } of agentProcesses()) if (own.includes(job)) killIfThere(pid);
});

test("a kept process that is stopped is replaced within seconds", async () => {
  const { pid } = await ask(echo, "stopped");
  process.kill(pid, "SIGSTOP");
  const began = performance.now();
  const answer = await ask(echo, "stopped");
  expect(answer).toMatchObject({ resumed: true, earlierPrompts: 1 });
  expect(performance.now() - began).toBeLessThan(40_000);
});

/** It may have ended by itself meanwhile. */
const killIfThere = (pid: number): void => {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
};

const recordOf = async (session: string): Promise<{ answers: string[]; updated_at: string }> => {
  const directory = join(service.home, ".service", "jobs", "conversations");
  const names = (await readdir(directory)).filter((name) => name.endsWith(".json"));
  const texts = await Promise.all(names.map((name) => readFile(join(directory, name), "utf8")));
  return JSON.parse(texts.find((text) => text.includes(session)) ?? "") as Awaited<
    ReturnType<typeof recordOf>
  >;
};
const metrics = async (): Promise<string> => (await fetch(`${service.url}/metrics`)).text();
