import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { steadyEnvironment, untilAt } from "./chat-streams.ts";
import { rssOf } from "./rss.ts";
import { atMost, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const readers = 500;
const resuming = 20;
const pad = 4096;
/** Of 4 KiB each. All begin together after the first, so that half and whole are written at the same speed. */
const pieces = 1024;
const half = 512;
const early = 16;

/** Readers that take nothing while their agents write 4 MiB each: the memory of the service, and whether all is still there. */
export const chatStalled = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withService(
      directory,
      { ...steadyEnvironment(readers + 100), AGENT_MODE_STALL_TIMEOUT: "3600" },
      async ({ url, pid }) => {
        const port = new URL(url).port;
        // A few first: what is loaded and compiled once is not a cost of theirs.
        const warm = join(directory, "warm");
        await writeFile(warm, "");
        await writeFile(`${warm}.go`, "");
        await withReaders({ port, count: 50, gate: warm }, (some) => readOn(some, 50));
        const none = await rssOf(pid);
        const gate = join(directory, "gate");
        return await withReaders({ port, count: readers, gate }, async (stalled) => {
          await untilAt(`${gate}.at`, readers);
          await writeFile(gate, "");
          await untilAt(`${gate}.then`, readers);
          const little = await rssOf(pid);
          await writeFile(`${gate}.go`, "");
          await untilAt(`${gate}.end`, readers);
          const much = await rssOf(pid);
          const complete = await readOn(stalled, resuming);
          const value = much / little;
          const each = (much - none) / readers;
          return [
            {
              what: `memory with ${readers} readers that take nothing, after 4 MiB each`,
              ours: `${much.toFixed(0)} MB`,
              baseline: `${little.toFixed(0)} MB after 2 MiB each`,
              value,
              unit: "x" as const,
              target: "≤ 1.2 ×",
              met: atMost(value, 1.2),
            },
            {
              what: "the same per reader",
              ours: `${much.toFixed(0)} MB`,
              baseline: `${none.toFixed(0)} MB with none`,
              value: each,
              unit: "MB" as const,
              target: "reported",
              met: true,
            },
            {
              what: `of them ${resuming} that then read on: answers that are not complete`,
              ours: `${complete} complete`,
              baseline: `${resuming} asked`,
              value: resuming - complete,
              unit: "failures" as const,
              target: "0",
              met: complete === resuming,
            },
          ];
        });
      },
    ),
  );

type Readers = { port: string; count: number; gate: string };

/** In a process of its own: see bench/stalled-readers.pl. */
const withReaders = async <Value>(
  { port, count, gate }: Readers,
  use: (readers: ChildProcess) => Promise<Value>,
): Promise<Value> => {
  const prompt = `stream %d: steady count=${pieces} rate=0 pad=${pad} gate=${gate} at=${early} then=${half}`;
  const program = join(import.meta.dirname, "stalled-readers.pl");
  const child = spawn("perl", [program, port, String(count), prompt], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    await once(child.stdout, "data");
    return await use(child);
  } finally {
    child.kill("SIGKILL");
  }
};

/** Lets the first of them read to the end; how many got everything. */
const readOn = async ({ stdin, stdout }: ChildProcess, count: number): Promise<number> => {
  if (stdin === null || stdout === null) throw new Error("the readers have no pipes");
  stdin.write(`${count} ${pieces} ${pad}\n`);
  const [complete] = (await once(stdout, "data")) as [Buffer];
  return Number(complete.toString());
};
