import { spawn } from "node:child_process";
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { atMost, type Figure } from "./statistics.ts";
import { writeCorpus } from "./transcript-corpus.ts";
import { withDirectory } from "./workbench.ts";

const sessions = 5000;
const [everySeconds, minutes] = [10, 6];

/** The processor time of `bridge serve` in an hour in which one session of many gets a line every ten seconds. */
export const transcriptsIdle = (): Promise<Figure[]> =>
  withDirectory(async (home) => {
    writeCorpus(join(home, ".claude"), { sessions, bytes: 4000 });
    const bridge = spawn(process.execPath, [program, "serve"], {
      env: { PATH: process.env["PATH"], HOME: home, BRIDGE_TRANSPORT: "sse", BRIDGE_PORT: "0" },
      stdio: "ignore",
    });
    try {
      const { pid = 0 } = bridge;
      await settled(pid);
      const before = processorSeconds(pid);
      for (let n = 0; n < (minutes * 60) / everySeconds; n += 1) {
        await delay(everySeconds * 1000);
        appendFileSync(newestIn(home), line(n));
      }
      const hourly = ((processorSeconds(pid) - before) * 60) / minutes;
      return [
        {
          what: `an hour of ${sessions} sessions, one of which gets a line every ${everySeconds} s`,
          ours: `${hourly.toFixed(1)} s of processor`,
          baseline: "–",
          value: hourly * 1000,
          unit: "ms",
          target: "≤ 2,000 ms",
          met: atMost(hourly, 2),
        },
      ];
    } finally {
      bridge.kill();
    }
  });

const program = join(import.meta.dirname, "..", "src", "cli", "bridge", "main.ts");

/** Resolves when the first index is done: the process has rested for five seconds. */
const settled = async (pid: number): Promise<void> => {
  for (let before = -1, now = 0; now > before + 0.05 || now < 1;) {
    before = now;
    await delay(5000);
    now = processorSeconds(pid);
  }
};

/** Ticks are hundredths of a second. */
const processorSeconds = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
};

const newestIn = (home: string): string => {
  const projects = join(home, ".claude", "projects");
  const [project = ""] = readdirSync(projects);
  const [session = ""] = readdirSync(join(projects, project));
  return join(projects, project, session);
};

const line = (n: number): string =>
  `${JSON.stringify({
    type: "user",
    uuid: `idle-${n}`,
    timestamp: new Date().toISOString(),
    message: { role: "user", content: `line ${n} of a session that goes on` },
  })}\n`;
