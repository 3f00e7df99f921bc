import { ServiceError } from "../contract/errors.ts";
import type { ListJobsInput } from "../contract/job-list.ts";
import type { AnswerInput } from "../contract/answer.ts";
import { asksPerson, isFinal } from "../contract/job.ts";
import { isCalled } from "../contract/repository-url.ts";
import type { ListQuery } from "../store/job-list.ts";
import type { JobRecord } from "../store/job-record.ts";
import { answerTo } from "./answer.ts";
import { endJob, type Settling } from "./settle.ts";

type Dependencies = Settling & {
  /** Ends the run of a cancelled job if it is on this instance. */
  interrupt: (record: JobRecord) => void;
};

/** Operations on existing jobs. */
export const createJobs = (deps: Dependencies) => {
  const { store, jobEnds } = deps;

  const get = async (id: string): Promise<JobRecord> => {
    const record = await store.get(id);
    if (record !== null) return record;
    throw new ServiceError(
      "job_not_found",
      `There is no job ${id.slice(0, 100)}; svc jobs lists those there are, and ${/^[\da-f-]*$/i.test(id) ? "at least four digits of an id will do" : "an id has no other characters than 0-9, a-f and -"}`,
    );
  };

  /** Final at once; the agent is ended and its work is saved in the background. */
  const cancel = async (id: string, reason?: string): Promise<JobRecord> => {
    await get(id);
    const error = reason === undefined ? {} : { error: reason };
    const cancelled = await endJob(deps, id, "cancel", () => error);
    if (cancelled === null) return await get(id);
    if (cancelled.unsettled) deps.interrupt(cancelled);
    return cancelled;
  };

  /** Stores the answer; whoever runs the job, or starts it again, gives it to the agent. */
  const answer = async (input: AnswerInput): Promise<JobRecord> => {
    const { id } = await get(input.job_id);
    const answered = await store.update(id, { status: ["running"] }, ({ waiting, asked }) => {
      const given = answerTo(waiting, input);
      return asked === null ? null : { waiting: null, asked: { ...asked, answer: given } };
    });
    if (answered === null)
      throw new ServiceError("not_waiting", "The job waits for no answer; svc job shows what it does");
    // Its run waits for it; one that is parked goes on when it is its turn.
    jobEnds.notify(id);
    if (!answered.unsettled) await deps.queue.add({ id, boundTo: answered.bound_to });
    return answered;
  };

  return {
    get,
    answer,
    cancel: (id: string): Promise<JobRecord> => cancel(id),
    list: (asked: ListJobsInput) => store.list(queryOf(asked)),
    /** Cancels a job. Resolves when its agent has ended and its work is saved; rejects when the signal aborts first. */
    end: async (id: string, reason: string, signal: AbortSignal): Promise<void> => {
      await cancel(id, reason);
      for (;;) {
        const ended = jobEnds.waitFor(id, signal);
        const record = await store.get(id);
        if (record?.unsettled !== true) return;
        signal.throwIfAborted();
        await ended;
      }
    },
    /** Resolves to the job once it is final or waits for a person, or as it is when the signal aborts. */
    untilFinal: async (id: string, signal: AbortSignal): Promise<JobRecord> => {
      for (;;) {
        const ended = jobEnds.waitFor(id, signal);
        const record = await get(id);
        if (isFinal(record.status) || asksPerson(record.waiting) || signal.aborted) return record;
        await ended;
      }
    },
  };
};

export type Jobs = ReturnType<typeof createJobs>;

/** What a caller asks for as the store's query. */
const queryOf = ({ status, since, limit, session_id, cursor, ...wanted }: ListJobsInput): ListQuery => ({
  limit,
  session_id,
  cursor,
  status: status === "all" ? "" : status,
  ...(since !== "" && { since: Date.parse(since) }),
  ...(Object.values(wanted).some((text) => text.trim() !== "") && { isWanted: jobFilter(wanted) }),
});

type Filtered = Pick<JobRecord, "task" | "repo_url" | "profile" | "outcome">;

/** Filters of a job list. An empty text matches every job; `q` is words of the task. */
type Wanted = Pick<ListJobsInput, "repo_url" | "profile" | "outcome" | "q">;

/** Whether a job is one of those. */
const jobFilter = ({ repo_url, profile, outcome, q }: Wanted) => {
  const words = q.toLowerCase().split(/\s+/);
  return (job: Filtered): boolean => {
    const task = job.task.toLowerCase();
    return (
      (profile === "" || job.profile === profile) &&
      (outcome === "" || job.outcome === outcome) &&
      (repo_url === "" || isCalled(job.repo_url, repo_url)) &&
      words.every((word) => task.includes(word))
    );
  };
};
