import type { Job } from "../contract/job.ts";
import type { Client } from "./client.ts";

/**
 * Input that submits the job's task once more, from the start. Without its files, which the service does not give back,
 * and without the name of its branch if the job has made that.
 */
export const retryInput = async (client: Client, job: Job) => {
  const { files: _, branch, ...options } = job.options;
  return {
    task: job.task,
    profile: job.profile,
    allow_hosts: job.allow_hosts,
    ...(await placeOf(client, job)),
    options: { ...options, branch: job.branch === null ? branch : null },
  } satisfies Parameters<Client["run_task"]>[0];
};

/** Where the job ran: its repository, or the worktree or session that was there before it. */
const placeOf = async (client: Client, job: Job) => {
  const { id, worktree_id, session_id, created_at, repo_url, base_ref } = job;
  if (worktree_id === null || worktree_id === id)
    return { repo_url, base_ref: repo_url === "" ? "" : base_ref, repositories: alsoOf(job) };
  const { jobs } = await client.list_jobs(session_id === null ? { limit: 1 } : { session_id, limit: 1000 });
  const isResumed = session_id !== null && jobs.some((each) => each.created_at < created_at);
  return isResumed ? { session_id } : { worktree_id, repositories: alsoOf(job) };
};

const alsoOf = ({ repositories }: Job) =>
  repositories.map(({ repo_url, base_ref }) => ({ repo_url, base_ref }));
