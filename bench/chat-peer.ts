import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { until } from "../test/until.ts";
import { steadyEnvironment, untilAt } from "./chat-streams.ts";
import { percentile, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const rate = 50;
const seconds = 6;
const rounds = 2;
const pieces = 1 + rate * seconds;

type Server = { url: string; pid: number };
/** Ages in ms; `cpu`: processor time of the server alone, µs per delta; `rss`: its resident memory after it, MB. */
type Measured = { ages: number[]; cpu: number; rss: number };

/** What a delta costs and how old it is at the client, beside a thin proxy before the same agents. */
export const chatPeer = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withService(directory, steadyEnvironment(100), (service) =>
      withPeer(directory, async (peer) => {
        const servers = [service, peer];
        // What is loaded and compiled once is no cost per delta.
        for (const [n, server] of servers.entries())
          await measure(server, 100, join(directory, `first-${n}`));
        const figures: Figure[] = [];
        for (const streams of [1, 50, 100]) {
          const all: Measured[][] = [[], []];
          for (let round = 0; round < rounds; round += 1) {
            for (const [n, server] of servers.entries()) {
              all[n]?.push(await measure(server, streams, join(directory, `gate-${streams}-${round}-${n}`)));
            }
          }
          const [ours, theirs] = all.map(joined);
          if (ours !== undefined && theirs !== undefined) figures.push(...compared(streams, ours, theirs));
        }
        return figures;
      }),
    ),
  );

const joined = (rounds: Measured[]): Measured => ({
  ages: rounds.flatMap(({ ages }) => ages),
  cpu: rounds.reduce((sum, { cpu }) => sum + cpu, 0) / rounds.length,
  rss: Math.max(...rounds.map(({ rss }) => rss)),
});

const compared = (streams: number, ours: Measured, theirs: Measured): Figure[] => {
  const figure = (
    what: string,
    of: (measured: Measured) => number,
    unit: string,
    decides = true,
  ): Figure => ({
    what: `${streams} streams at ${rate} deltas/s, ${what}`,
    ours: `${of(ours).toFixed(2)} ${unit}`,
    baseline: `${of(theirs).toFixed(2)} ${unit}`,
    value: of(ours) / of(theirs),
    unit: "x",
    target: decides ? "≤ 1 ×" : "reported",
    met: !decides || of(ours) <= of(theirs),
  });
  return [
    ...[0.5, 0.9, 0.99].map((p) =>
      figure(`agent's stdout → client, p${p * 100}`, ({ ages }) => percentile(ages, p), "ms"),
    ),
    figure("processor time of the server per delta", ({ cpu }) => cpu, "µs"),
    figure("its memory", ({ rss }) => rss, "MB", false),
  ];
};

/** Streams begin to run when all agents are there: what it takes to start them is another figure. */
const measure = async ({ url, pid }: Server, streams: number, gate: string): Promise<Measured> => {
  const prompt = `stream %d: steady count=${pieces} rate=${rate} pad=0 gate=${gate} at=1`;
  const program = join(import.meta.dirname, "chat-steady-client.ts");
  const client = spawn(process.execPath, [program, url, String(streams), String(pieces), prompt], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const printed = text(client.stdout);
  await untilAt(`${gate}.at`, streams);
  const before = cpuSecondsOf(pid);
  await writeFile(gate, "");
  await untilAt(`${gate}.end`, streams);
  const cpu = cpuSecondsOf(pid) - before;
  const { lost, failed, ages } = JSON.parse(await printed) as {
    lost: number;
    failed: number;
    ages: number[];
  };
  if (lost + failed > 0)
    throw new Error(`${url}: ${failed} of ${streams} streams failed, ${lost} deltas lost`);
  const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
  return { ages, cpu: (cpu * 1e6) / (streams * (pieces - 1)), rss };
};

/** The clock of a process's processor time: /proc counts hundredths of a second, too coarse for one stream. */
export const cpuSecondsOf = (pid: number): number =>
  Number(
    execFileSync("perl", ["-MTime::HiRes=clock_gettime", "-e", `print clock_gettime((~${pid} << 3) | 2)`]),
  );

/** The proxy, which looks for `claude` on its PATH. What it notes of every piece goes nowhere. */
const withPeer = async <Value>(directory: string, use: (peer: Server) => Promise<Value>): Promise<Value> => {
  const bin = join(directory, "bin");
  await mkdir(bin);
  await symlink(join(import.meta.dirname, "steady-agent.pl"), join(bin, "claude"));
  const port = await freePort();
  const program = fileURLToPath(import.meta.resolve("claude-max-api-proxy")).replace(
    /index\.js$/,
    "server/standalone.js",
  );
  const child = spawn(process.execPath, [program, String(port)], {
    cwd: directory,
    env: { PATH: `${bin}:${process.env["PATH"]}`, HOME: directory, LANG: "C.UTF-8", NODE_ENV: "production" },
    stdio: "ignore",
  });
  const url = `http://127.0.0.1:${port}`;
  try {
    await until(async () => (await fetch(`${url}/health`).catch(() => null))?.ok === true, {
      seconds: 20,
      what: "the proxy to listen",
    });
    return await use({ url, pid: child.pid ?? 0 });
  } finally {
    child.kill("SIGKILL");
  }
};

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise<void>((resolve) => void server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
};
