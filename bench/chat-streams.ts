import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { until } from "../test/until.ts";
import { rssOf } from "./rss.ts";
import { atMost, median, percentile, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const streams = 200;
const rate = 50;
/** rssOf takes twenty seconds. */
const seconds = 24;
const pieces = 1 + rate * seconds;

/** Many streams at once: what is lost, and what each costs the service. */
export const chatStreams = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withService(directory, steadyEnvironment(streams), async ({ url, pid }) => {
      // One round first: what is loaded and compiled once is not a cost per stream.
      await round({ url, pid, gate: join(directory, "first"), count: 1 + rate * 3 });
      const before = await rssOf(pid);
      const { lost, ages, cpu, rss } = await round({
        url,
        pid,
        gate: join(directory, "gate"),
        count: pieces,
      });
      const perDelta = (cpu * 1e6) / (pieces * streams);
      const each = (rss - before) / streams;
      return [
        {
          what: `${streams} streams at ${rate} deltas/s each for ${seconds} s: deltas lost or out of order`,
          ours: `${lost} of ${streams * pieces}`,
          baseline: "what the agents wrote",
          value: lost,
          unit: "failures",
          target: "0",
          met: lost === 0,
        },
        {
          what: "the same, memory of the service per stream",
          ours: `${rss.toFixed(0)} MB`,
          baseline: `${before.toFixed(0)} MB with none, after ${streams}`,
          value: each,
          unit: "MB",
          target: "≤ 1 MB",
          met: atMost(each, 1),
        },
        {
          what: "the same, processor time of the service",
          ours: `${perDelta.toFixed(0)} µs per delta, ${((perDelta * rate) / 1e4).toFixed(2)} % of a core per stream`,
          baseline: "",
          value: perDelta / 1000,
          unit: "ms",
          target: "reported",
          met: true,
        },
        {
          what: "the same, agent's stdout → client, p99",
          ours: `p50 ${median(ages).toFixed(2)}, p99 ${percentile(ages, 0.99).toFixed(2)} ms`,
          baseline: "",
          value: percentile(ages, 0.99),
          unit: "ms",
          target: "reported",
          met: true,
        },
      ];
    }),
  );

/** Agents that cost little, and room for that many. */
export const steadyEnvironment = (count: number): Record<string, string> => ({
  SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "steady-agent.pl"),
  SERVICE_CONV_HASH_FALLBACK: "false",
  AGENT_MODE: "true",
  AGENT_MODE_MAX_CONCURRENT: String(count),
  AGENT_MODE_WARM_PROCESSES: "0",
  AGENT_MODE_KEEP_ALIVE: "0",
});

/** Resolves when so many agents have come to a point: see bench/steady-agent.pl. */
export const untilAt = async (file: string, count: number): Promise<void> => {
  await until(async () => (await stat(file).catch(() => ({ size: 0 }))).size >= count, {
    seconds: 300,
    what: `${count} agents to come to ${file}`,
  });
};

type Round = { url: string; pid: number; gate: string; count: number };
type Report = { lost: number; failed: number; ages: number[] };

/** Streams begin to run when all agents are there. `cpu`: seconds from then to the end; `rss`: MB meanwhile. */
const round = async ({ url, pid, gate, count }: Round) => {
  const prompt = `stream %d: steady count=${count} rate=${rate} pad=0 gate=${gate} at=1`;
  const program = join(import.meta.dirname, "chat-steady-client.ts");
  const client = spawn(process.execPath, [program, url, String(streams), String(count), prompt], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const printed = text(client.stdout);
  await untilAt(`${gate}.at`, streams);
  await writeFile(gate, "");
  const usedBefore = cpuSecondsOf(pid);
  const rss = count === pieces ? await rssOf(pid) : 0;
  const { lost, failed, ages } = JSON.parse(await printed) as Report;
  const cpu = cpuSecondsOf(pid) - usedBefore;
  if (failed > 0) throw new Error(`${failed} of ${streams} streams failed`);
  return { lost, ages, cpu, rss };
};

const cpuSecondsOf = (pid: number): number => {
  const line = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
