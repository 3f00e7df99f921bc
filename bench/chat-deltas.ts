import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fakeAgent } from "../test/service-process.ts";
import { machineTime, readAnswer } from "./chat-client.ts";
import { median, percentile, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const rounds = 4;
const seconds = 6;

/** Age of each delta when it reaches a client of /v1/chat/completions, against a parent that reads the agent's pipe. */
export const chatDeltas = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withService(directory, { AGENT_MODE: "true" }, async ({ url }) => {
      const figures: Figure[] = [];
      for (const rate of [50, 200]) {
        const piped: number[] = [];
        const streamed: number[] = [];
        for (let round = -1; round < rounds; round += 1) {
          const count = rate * (round < 0 ? 1 : seconds);
          const task = `scenario: slow-deltas {"count": ${count}, "rate": ${rate}, "clock": "monotonic"} ${round}`;
          const direct = complete(await pipeAges(task), count);
          const through: number[] = [];
          await readAnswer({
            url,
            text: task,
            onPiece: (text) => through.push(machineTime() - Number(text)),
          });
          if (round < 0) continue;
          piped.push(...direct);
          streamed.push(...complete(through, count));
        }
        for (const [p, limit] of [
          [0.5, 0.5],
          [0.99, 3],
        ] as const) {
          const value = percentile(streamed, p) - percentile(piped, p);
          figures.push({
            what: `agent's stdout → client of /v1/chat/completions at ${rate}/s, p${p * 100} of ${streamed.length}`,
            ours: shown(streamed),
            baseline: `${shown(piped)} (raw pipe)`,
            value,
            unit: "ms",
            target: `≤ ${limit} ms over a raw pipe`,
            met: value <= limit,
          });
        }
      }
      return figures;
    }),
  );

const shown = (ages: readonly number[]): string =>
  `p50 ${median(ages).toFixed(2)}, p99 ${percentile(ages, 0.99).toFixed(2)} ms`;

const complete = (ages: number[], count: number): number[] => {
  if (ages.length !== count) throw new Error(`${ages.length} of ${count} deltas arrived`);
  return ages;
};

const pipeAges = async (task: string): Promise<number[]> => {
  const child = spawn(
    fakeAgent,
    ["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"],
    { stdio: ["pipe", "pipe", "ignore"] },
  );
  child.stdin.end(`${JSON.stringify({ type: "user", message: { role: "user", content: task } })}\n`);
  const ages: number[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const text = /"text_delta","text":"([\d.]+) "/.exec(line)?.[1];
    if (text !== undefined) ages.push(machineTime() - Number(text));
  }
  return ages;
};
