import type { Job } from "../../src/contract/job.ts";
import type { Service } from "../service.ts";
import { until } from "../until.ts";

/** Submits a task and waits for the job's end. */
export const runJob = async (
  service: Service,
  task: string,
  over: Record<string, unknown> = {},
): Promise<Job> => {
  const { job } = await service.client.run_task({ task, ...over });
  return await until(
    async () => {
      const { job: now } = await service.client.get_job({ job_id: job.id });
      return now.ended_at === null ? null : now;
    },
    { what: `job ${job.id} to end` },
  );
};

export const stagesOf = (job: Job): string[] => job.stages.map(({ stage }) => stage);
