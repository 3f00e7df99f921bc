import { asksPerson, isFinal, limitedUntil, type Job } from "../contract/job.ts";
import type { RequestContext } from "../contract/operation.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Answer } from "../mcp/answer.ts";
import type { JobRecord } from "../store/job-record.ts";

/** How often a waiting caller gets progress, ms. */
export const heartbeat = 5000;

/** Resolves to the job when it has ended, or as it is after `timeout` seconds. */
export const waitForJob = async (
  jobs: Pick<Jobs, "get" | "untilFinal">,
  { job_id, timeout }: { job_id: string; timeout: number },
  { signal, progress }: RequestContext,
): Promise<JobRecord> => {
  const enough = AbortSignal.any([signal, AbortSignal.timeout(timeout * 1000)]);
  for (;;) {
    const record = await jobs.get(job_id);
    if (isFinal(record.status) || asksPerson(record.waiting) || enough.aborted) return record;
    progress?.(progressOf(record));
    const later = await jobs.untilFinal(job_id, AbortSignal.any([enough, AbortSignal.timeout(heartbeat)]));
    if (isFinal(later.status) || asksPerson(later.waiting)) return later;
  }
};

/** Ends every wait for a job when `end` aborts; the answer is then the job as it is. */
export const waitingUntil =
  (end: AbortSignal, answer: Answer): Answer =>
  async (name, given, context) => {
    if (name !== "wait_for_job") return answer(name, given, context);
    const signal = AbortSignal.any([end, context.signal]);
    const answered = await answer(name, given, { ...context, signal });
    const isCut = end.aborted && !context.signal.aborted && answered.code !== null;
    return isCut ? answer("get_job", { job_id: given["job_id"] }, context) : answered;
  };

/** `running: agent_started, attempt 1`: its state in a few words. */
export const progressOf = ({
  status,
  stages,
  attempt,
  ...job
}: Pick<Job, "status" | "stages" | "attempt" | "waiting" | "held">): string => {
  const until = limitedUntil(job);
  if (until !== null) return `${status}: waits for the usage limit until ${until}`;
  if (job.waiting?.kind === "model")
    return `${status}: waits for the model, which is asked again at ${job.waiting.until}`;
  const stage = stages.at(-1)?.stage;
  return status === "queued" || stage === undefined ? status : `${status}: ${stage}, attempt ${attempt}`;
};
