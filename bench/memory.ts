import { until } from "../test/until.ts";
import { rssOf } from "./rss.ts";
import type { Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const parallel = 40;

/** Resident memory of the service with 40 running jobs against the same service with none. */
export const memory = (): Promise<Figure[]> =>
  withDirectory((directory) =>
    withService(directory, { SERVICE_MAX_PARALLEL_JOBS: String(parallel) }, async (service) => {
      // One round first: what is loaded and compiled once is not a cost per job.
      await round(service, `scenario: noop`);
      const idle = await rssOf(service.pid);
      const ids = await round(service, `scenario: sleep {"rate": 5}`);
      const busy = await rssOf(service.pid);
      for (const id of ids) await service.client.cancel_job({ job_id: id });
      const value = (busy - idle) / parallel;
      return [
        {
          what: "memory of the service per running job",
          ours: `${busy.toFixed(0)} MB with ${parallel} running`,
          baseline: `${idle.toFixed(0)} MB with none`,
          value,
          unit: "MB",
          target: "≤ 3 MB",
          met: value <= 3,
        },
      ];
    }),
  );

type Asked = Parameters<Parameters<typeof withService>[2]>[0];

const round = async (service: Asked, task: string): Promise<string[]> => {
  const ids: string[] = [];
  for (let n = 0; n < parallel; n += 1) ids.push((await service.client.run_task({ task })).job.id);
  for (const id of ids) {
    await until(
      async () =>
        (await service.client.get_job({ job_id: id })).job.stages.some(
          ({ stage }) => stage === "first_output" || stage === "ended",
        ),
      {
        seconds: 120,
      },
    );
  }
  return ids;
};
