import type { Job } from "../src/contract/job.ts";
import type { Service } from "./service-process.ts";
import { until } from "./until.ts";

type Submission = Partial<Parameters<Service["client"]["run_task"]>[0]> & { task: string };

/** What end-to-end tests ask of a service again and again. */
export const asks = (service: Pick<Service, "client">) => {
  const get = async (id: string): Promise<Job> => (await service.client.get_job({ job_id: id })).job;

  /** The job as soon as `holds` is true of it. */
  const when = (id: string, holds: (job: Job) => boolean, what: string, seconds = 100): Promise<Job> =>
    until(
      async () => {
        const job = await get(id);
        return holds(job) ? job : null;
      },
      { seconds, what: `job ${id} ${what}` },
    );

  const submit = async (submission: Submission): Promise<Job> =>
    (await service.client.run_task(submission)).job;
  const ended = (id: string): Promise<Job> => when(id, (job) => job.ended_at !== null, "to end");

  return {
    get,
    when,
    submit,
    ended,
    /** Its agent has begun to speak. */
    speaking: (id: string): Promise<Job> =>
      when(id, (job) => job.stages.some(({ stage }) => stage === "first_output"), "to speak"),
    run: async (submission: Submission): Promise<Job> => ended((await submit(submission)).id),
  };
};
