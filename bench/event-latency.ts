import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fakeAgent } from "../test/service-process.ts";
import { median, percentile, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const deltas = 2000;
const task = `scenario: slow-deltas {"count": ${deltas}, "rate": 200}`;

/** Age of each delta when it reaches a client of the event stream, against a parent that reads the agent's pipe. */
export const eventLatency = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withService(directory, {}, async (service) => {
      const piped = await pipeLatencies();
      const { job } = await service.client.run_task({ task });
      const streamed: number[] = [];
      for await (const event of service.client.events(job.id, { signal: AbortSignal.timeout(120_000) })) {
        if (event.type === "text") streamed.push(...agesOf(event.text));
      }
      if (streamed.length < deltas * 0.99)
        throw new Error(`only ${streamed.length} of ${deltas} deltas arrived`);
      const added = percentile(streamed, 0.99) - percentile(piped, 0.99);
      return [
        {
          what: "agent's stdout → client of /jobs/{id}/events, p99",
          ours: `p50 ${median(streamed).toFixed(2)}, p99 ${percentile(streamed, 0.99).toFixed(2)} ms`,
          baseline: `p50 ${median(piped).toFixed(2)}, p99 ${percentile(piped, 0.99).toFixed(2)} ms (raw pipe)`,
          value: added,
          unit: "ms",
          target: "≤ 5 ms over a raw pipe",
          met: added <= 5,
        },
      ];
    }),
  );

/** The agent writes when it sent a delta into its text, ms since the epoch. */
const agesOf = (text: string): number[] => {
  const now = performance.timeOrigin + performance.now();
  return [...text.matchAll(/(\d{13}(?:\.\d+)?)/g)].map((match) => now - Number(match[1]));
};

const pipeLatencies = async (): Promise<number[]> => {
  const child = spawn(
    fakeAgent,
    ["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"],
    { stdio: ["pipe", "pipe", "ignore"] },
  );
  child.stdin.end(`${JSON.stringify({ type: "user", message: { role: "user", content: task } })}\n`);
  const ages: number[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes("text_delta")) ages.push(...agesOf(line));
  }
  if (ages.length < deltas) throw new Error(`only ${ages.length} of ${deltas} deltas came through the pipe`);
  return ages;
};
