import { readdirSync, readFileSync } from "node:fs";
import { chmod, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { makeRemoteIn } from "../test/remote.ts";
import { fakeAgent, type Service } from "../test/service-process.ts";
import { until } from "../test/until.ts";
import { readAnswer } from "./chat-client.ts";
import { chatTime, claude, withModel } from "./chat-first-word.ts";
import { atMost, median, percentile, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const root = join(import.meta.dirname, "..");
const modes = ["off", "bwrap"] as const;
type Mode = (typeof modes)[number];
type Samples = Record<Mode, number[]>;

/** What an agent in bubblewrap costs more than one without a sandbox. Taken in turns, by two services of one machine. */
export const sandbox = async (): Promise<Figure[]> => [
  await coldStart(),
  ...(await chat()),
  await memoryOfJobs(),
];

/** Each mode is the first one in half of the rounds. */
const inTurn = (round: number): readonly Mode[] => (round % 2 === 0 ? modes : modes.toReversed());

const inEachMode = (
  env: Record<string, string>,
  use: (services: Record<Mode, Service>, directory: string) => Promise<Figure[]>,
): Promise<Figure[]> =>
  withDirectory(async (directory) => {
    for (const mode of modes) await mkdir(join(directory, mode));
    const shared = { SERVICE_AGENT_SANDBOX_READ: root, SERVICE_AGENT_SANDBOX_WRITE: directory, ...env };
    return await withService(join(directory, "off"), { ...shared, SERVICE_AGENT_SANDBOX: "off" }, (off) =>
      withService(join(directory, "bwrap"), { ...shared, SERVICE_AGENT_SANDBOX: "bwrap" }, (bwrap) =>
        use({ off, bwrap }, directory),
      ),
    );
  });

const startRounds = 40;

/** From the submission to the start of the agent's program, which notes it. */
const coldStart = async (): Promise<Figure> =>
  await withDirectory(async (place) => {
    const remote = await makeRemoteIn(place, { "README.md": "a file\n" });
    const started = join(place, "started");
    const agent = join(place, "noting-agent");
    await writeFile(
      agent,
      `#!/bin/sh\ndate +%s%N > ${started}.new && mv ${started}.new ${started}\nexec ${fakeAgent} "$@"\n`,
    );
    await chmod(agent, 0o755);
    const env = {
      SERVICE_AGENT_CLI_BINARY: agent,
      SERVICE_AGENT_SANDBOX_READ: root,
      SERVICE_AGENT_SANDBOX_WRITE: place,
    };
    const [figure] = await inEachMode(env, async (services) => {
      const times: Samples = { off: [], bwrap: [] };
      for (let round = -3; round < startRounds; round += 1)
        for (const mode of inTurn(round)) {
          const { client } = services[mode];
          const submitted = performance.timeOrigin + performance.now();
          const { job } = await client.run_task({ task: "scenario: noop", repo_url: remote.path });
          const text = await until(() => readFile(started, "utf8").catch(() => ""), {
            what: "the agent to start",
          });
          if (round >= 0) times[mode].push(Number(BigInt(text.trim()) / 1000n) / 1000 - submitted);
          await rm(started);
          await until(async () => (await client.get_job({ job_id: job.id })).job.ended_at !== null);
        }
      return [more("submit → agent started, cold sandbox", times, { unit: "ms", limit: 60 })];
    });
    return figure as Figure;
  });

const chatRounds = 16;
const deltas = 4000;

/** The real CLI and a scripted model, so that what the model says comes through the door. */
const chat = (): Promise<Figure[]> =>
  withModel((model) => {
    const env = {
      SERVICE_AGENT_CLI_BINARY: claude,
      MODEL_API_BASE_URL: model,
      MODEL_API_AUTH_TOKEN: "token-of-the-bench",
      AGENT_MODE: "true",
      AGENT_MODE_IDLE_PROCESSES: "0",
      AGENT_MODE_KEEP_ALIVE: "0",
    };
    return inEachMode(env, async (services) => {
      const first: Samples = { off: [], bwrap: [] };
      const processor: Samples = { off: [], bwrap: [] };
      const together: Samples = { off: [], bwrap: [] };
      for (let round = -2; round < chatRounds; round += 1)
        for (const mode of inTurn(round)) {
          for (const each of modes) await untilQuiet(services[each].pid);
          const time = await chatTime(services[mode], `sandbox ${round}`);
          if (round >= 0) first[mode].push(time);
        }
      for (let round = -1; round < 14; round += 1)
        for (const mode of inTurn(round)) {
          for (const each of modes) await untilQuiet(services[each].pid);
          const used = await processorTime(services[mode], round);
          if (round < 0) continue;
          processor[mode].push(used.service);
          together[mode].push(used.all);
        }
      return [
        more("first delta of a chat, process ahead of need", first, { unit: "ms", limit: 5 }),
        times(`processor time of service and real CLI per delta, ${deltas} deltas`, together, 1.1),
        times(`processor time of the service alone per delta, ${deltas} deltas`, processor, 1.1),
      ];
    });
  });

/** Of the service alone, and of all that it has started as well, µs for each delta. */
const processorTime = async (
  { url, pid }: Service,
  round: number,
): Promise<{ service: number; all: number }> => {
  let pieces = 0;
  const used = () => ({
    service: ticksOf(pid),
    all: familyOf(pid).reduce((sum, each) => sum + ticksOf(each), 0),
  });
  const before = used();
  const text = `scenario: deltas {"count": ${deltas}} ${round}`;
  await readAnswer({ url, text, conversation: text, onPiece: () => (pieces += 1) });
  if (pieces === 0) throw new Error("no delta arrived");
  const after = used();
  const each = (key: "service" | "all"): number => ((after[key] - before[key]) * 10_000) / deltas;
  return { service: each("service"), all: each("all") };
};

const running = 10;

/** Of the service and all that it has started, with jobs that run, beside the same without. */
const memoryOfJobs = async (): Promise<Figure> => {
  const env = { SERVICE_MAX_PARALLEL_JOBS: String(running) };
  const [figure] = await inEachMode(env, async (services) => {
    const each: Samples = { off: [], bwrap: [] };
    for (let round = -1; round < 3; round += 1)
      for (const mode of modes) {
        const { client, pid } = services[mode];
        const before = residentOf(pid);
        const ids: string[] = [];
        for (let n = 0; n < running; n += 1)
          ids.push((await client.run_task({ task: 'scenario: sleep {"rate": 2}' })).job.id);
        for (const job_id of ids)
          await until(
            async () =>
              (await client.get_job({ job_id })).job.stages.some(({ stage }) => stage === "first_output"),
            { seconds: 120 },
          );
        await delay(3000);
        if (round >= 0) each[mode].push((residentOf(pid) - before) / running);
        for (const job_id of ids) await client.cancel_job({ job_id });
        await until(() => familyOf(pid).length === 1, { seconds: 60 });
      }
    return [more(`memory of a running job, of ${running} at once`, each, { unit: "MB", limit: 10 })];
  });
  return figure as Figure;
};

/** Waits until nothing that the service has started used its processor for half a second. */
const untilQuiet = async (service: number): Promise<void> => {
  const now = (): string =>
    familyOf(service)
      .slice(1)
      .map((pid) => `${pid} ${ticksOf(pid)}`)
      .join();
  for (let before = ""; ;) {
    await delay(500);
    const seen = now();
    if (seen !== "" && seen === before) return;
    before = seen;
  }
};

const statOf = (pid: number): string[] => {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, "utf8");
    return line.slice(line.lastIndexOf(")") + 2).split(" ");
  } catch {
    // It has ended.
    return [];
  }
};

/** Processor time that a process has used, in clock ticks of 10 ms. */
const ticksOf = (pid: number): number => {
  const fields = statOf(pid);
  return Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
};

/** A process and all below it. */
const familyOf = (pid: number): number[] => {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => [Number(name), Number(statOf(Number(name))[1])] as const);
  const found = [pid];
  for (const member of found)
    found.push(...parents.filter(([, parent]) => parent === member).map(([child]) => child));
  return found;
};

/** MB; what several share counts once. */
const residentOf = (pid: number): number =>
  familyOf(pid).reduce((sum, member) => {
    try {
      const text = readFileSync(`/proc/${member}/smaps_rollup`, "utf8");
      return sum + Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0) / 1024;
    } catch {
      // It has ended.
      return sum;
    }
  }, 0);

const shown = (samples: readonly number[], unit: string): string =>
  `${median(samples).toFixed(1)} ${unit} (p10 ${percentile(samples, 0.1).toFixed(1)}, p90 ${percentile(samples, 0.9).toFixed(1)}, n = ${samples.length})`;

/** By the rounds, because what else the machine does is the same for both of one round. */
const more = (
  what: string,
  { off, bwrap }: Samples,
  { unit, limit }: { unit: "ms" | "MB"; limit: number },
): Figure => {
  const value = median(bwrap.map((sample, round) => sample - (off[round] ?? Number.NaN)));
  return {
    what,
    ours: shown(bwrap, unit),
    baseline: `${shown(off, unit)} (off)`,
    value,
    unit,
    target: `≤ ${limit} ${unit} more`,
    met: atMost(value, limit),
  };
};

const times = (what: string, { off, bwrap }: Samples, limit: number): Figure => {
  const value = median(bwrap) / median(off);
  return {
    what,
    ours: shown(bwrap, "µs"),
    baseline: `${shown(off, "µs")} (off)`,
    value,
    unit: "x",
    target: `≤ ${limit} ×`,
    met: atMost(value, limit),
  };
};
