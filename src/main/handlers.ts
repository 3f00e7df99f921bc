import type { Handlers } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Profiles } from "../profiles/profile.ts";
import { toJob } from "../store/job-record.ts";

/** The operations as the doors call them. */
export const createHandlers = (jobs: Jobs, profiles: Profiles): Handlers<Operations> => ({
  run_task: async (input, context) => {
    const record = await jobs.submit(input, context);
    const answered = input.wait ? await jobs.untilFinal(record.id, context.signal) : record;
    return { success: true, job: toJob(answered) };
  },
  get_job: async ({ job_id }) => ({ success: true, job: toJob(await jobs.get(job_id)) }),
  list_jobs: async (query) => {
    const { records, next } = await jobs.list(query);
    return { success: true, count: records.length, jobs: records.map(toJob), next_cursor: next };
  },
  cancel_job: async ({ job_id }) => ({ success: true, job: toJob(await jobs.cancel(job_id)) }),
  list_profiles: async () => {
    const all = await profiles.list();
    return { success: true, count: all.length, profiles: all };
  },
});
