import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { livingAgents } from "../test/chat/agents.ts";
import type { Service } from "../test/service-process.ts";
import { readAnswer } from "./chat-client.ts";
import { atMost, median, percentile, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const rounds = 16;
const warmUps = 2;
const nextTurns = 2;

export const claude = join(import.meta.dirname, "..", "node_modules", ".bin", "claude");

/**
 * From the request to the first piece of the answer, with the real CLI and an offline model; against the time from the
 * spawn of the same CLI by hand to its first line of text. Taken in turns, when the agents are quiet.
 */
export const chatFirstWord = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withModel(async (model) => {
      const bareHome = join(directory, "bare");
      const [warmHome, coldHome] = [join(directory, "warm"), join(directory, "cold")];
      for (const home of [bareHome, warmHome, coldHome]) await mkdir(home);
      const env = {
        SERVICE_AGENT_CLI_BINARY: claude,
        MODEL_API_BASE_URL: model,
        MODEL_API_AUTH_TOKEN: "token-of-the-bench",
        AGENT_MODE: "true",
        AGENT_MODE_IDLE_PROCESSES: String(keptAtMost),
      };
      const cold = { ...env, AGENT_MODE_WARM_PROCESSES: "0", AGENT_MODE_KEEP_ALIVE: "0" };
      const times: Times = { bare: [], cold: [], first: [], next: [] };
      await withService(warmHome, env, (warmService) =>
        withService(coldHome, cold, async (coldService) => {
          for (let round = -warmUps; round < rounds; round += 1) {
            const measured = await oneRound(round, { model, bareHome, warmService, coldService });
            if (round < 0) continue;
            for (const each of ["bare", "cold", "first", "next"] as const)
              times[each].push(...measured[each]);
          }
        }),
      );
      return [
        figure("first delta, first turn on a warm process", times.first, { bare: times.bare, limit: 0.2 }),
        figure("first delta, next turn of a conversation", times.next, { bare: times.bare, limit: 0.08 }),
        figure("first delta, no process ahead of need", times.cold, { bare: times.bare, limit: 1.15 }),
      ];
    }),
  );

type Times = Record<"bare" | "cold" | "first" | "next", number[]>;

const keptAtMost = 2;

const oneRound = async (
  round: number,
  { model, bareHome, warmService, coldService }: World,
): Promise<Times> => {
  const kept = Math.min(keptAtMost, round + warmUps);
  await untilQuiet(warmService, kept + 1);
  const bare = await bareTime(`${prompt} ${round}`, { model, home: bareHome });
  const cold = await chatTime(coldService, `cold ${round}`);
  await untilQuiet(coldService, 0);
  const first = await chatTime(warmService, `warm ${round}`);
  const next: number[] = [];
  for (let turn = 0; turn < nextTurns; turn += 1) {
    await untilQuiet(warmService, Math.min(keptAtMost, kept + 1) + 1);
    next.push(await chatTime(warmService, `warm ${round}`));
  }
  return { bare: [bare], cold: [cold], first: [first], next };
};

type World = { model: string; bareHome: string; warmService: Service; coldService: Service };

const figure = (
  what: string,
  ours: readonly number[],
  { bare, limit }: { bare: readonly number[]; limit: number },
): Figure => {
  const value = median(ours) / median(bare);
  return {
    what,
    ours: shown(ours),
    baseline: `${shown(bare)} (bare claude -p)`,
    value,
    unit: "x",
    target: `≤ ${limit} ×`,
    met: atMost(value, limit),
  };
};

const shown = (times: readonly number[]): string =>
  `${median(times).toFixed(1)} ms (p10 ${percentile(times, 0.1).toFixed(1)}, p90 ${percentile(times, 0.9).toFixed(1)}, n = ${times.length})`;

const prompt = 'scenario: text {"text": "This is what the model has to say to that."}';

/** ms */
export const chatTime = async ({ url }: Service, conversation: string): Promise<number> => {
  let first: number | undefined;
  const begun = performance.now();
  await readAnswer({
    url,
    text: `${prompt} ${conversation}`,
    conversation,
    onPiece: () => (first ??= performance.now()),
  });
  return (first ?? Number.NaN) - begun;
};

/** ms */
const bareTime = async (said: string, { model, home }: { model: string; home: string }): Promise<number> => {
  const begun = performance.now();
  const child = spawn(claude, ["-p", said, ...bareArguments], {
    cwd: home,
    env: { ...bareEnvironment, HOME: home, CLAUDE_CONFIG_DIR: home, ANTHROPIC_BASE_URL: model },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = once(child, "exit");
  let first: number | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes('"text_delta"')) first ??= performance.now();
  }
  await exited;
  return (first ?? Number.NaN) - begun;
};

const bareArguments =
  "--output-format stream-json --verbose --include-partial-messages --dangerously-skip-permissions --model sonnet --setting-sources user --strict-mcp-config".split(
    " ",
  );

const bareEnvironment = {
  PATH: process.env["PATH"],
  LANG: "C.UTF-8",
  ANTHROPIC_AUTH_TOKEN: "token-of-the-bench",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
  DISABLE_AUTOUPDATER: "1",
  IS_SANDBOX: "1",
};

/** Waits until that many agents of the service are there and none of them has used its processor for half a second. */
const untilQuiet = async (service: Service, count: number): Promise<void> => {
  const deadline = performance.now() + 60_000;
  let before = "";
  for (;;) {
    const pids = await livingAgents(service);
    const used = await Promise.all(pids.map(ticksOf));
    const now = `${pids.join()} ${used.join()}`;
    if (pids.length === count && now === before) return;
    if (performance.now() > deadline) throw new Error(`${pids.length} agents are there, not ${count}`);
    before = now;
    await delay(500);
  }
};

/** Processor time that a process has used, in clock ticks. */
const ticksOf = async (pid: number): Promise<number> => {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
};

/** The scripted model in a process of its own. */
export const withModel = async <Value>(use: (url: string) => Promise<Value>): Promise<Value> => {
  const program = join(import.meta.dirname, "..", "test", "fake-model", "main.ts");
  const child: ChildProcess = spawn(process.execPath, [program], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [url] = (await once(child.stdout ?? child, "data")) as [Buffer];
    return await use(url.toString().trim());
  } finally {
    child.kill();
  }
};
