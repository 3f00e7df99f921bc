import { spawn } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import autocannon from "autocannon";
import { until } from "../test/until.ts";
import { median, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const rounds = 5;
const seconds = 4;

/** Submissions per second with 32 in flight, each durable before it is answered, against a bare route with that write. */
export const submissions = (): Promise<Figure[]> =>
  withDirectory(async (directory) => {
    const records = join(directory, "bare");
    await mkdir(records);
    const bare = spawn(process.execPath, [join(import.meta.dirname, "bare-server.ts"), records], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      let text = "";
      bare.stdout.on("data", (data: Buffer) => (text += data.toString()));
      const bareUrl = await until(() => /listening on (\S+)/.exec(text)?.[1]);
      const env = { SERVICE_MAX_QUEUED_JOBS: "1000000", SERVICE_MAX_PARALLEL_JOBS: "1" };
      return await withService(directory, env, async (service) => {
        // The one slot is taken, so that what is measured is accepting jobs and not running them.
        await service.client.run_task({ task: "scenario: hang" });
        const ours: number[] = [];
        const base: number[] = [];
        for (let round = 0; round < rounds; round += 1) {
          base.push(await rate(bareUrl));
          ours.push(await rate(service.url));
        }
        const value = median(ours) / median(base);
        return [
          {
            what: "POST /jobs accepted and durable, 32 in flight",
            ours: `${median(ours).toFixed(0)}/s`,
            baseline: `${median(base).toFixed(0)}/s (bare Hono route, as durable)`,
            value,
            unit: "x",
            target: "≥ 0.8 ×",
            met: value >= 0.8,
          },
        ];
      });
    } finally {
      bare.kill();
    }
  });

const rate = async (url: string): Promise<number> => {
  const result = await autocannon({
    url: `${url}/jobs`,
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ task: "Fix the failing test" }),
    connections: 32,
    duration: seconds,
  });
  if (result.non2xx + result.errors > 0)
    throw new Error(`${result.non2xx} refusals, ${result.errors} errors`);
  return result["2xx"] / result.duration;
};
