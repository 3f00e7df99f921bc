import type { ListJobsInput } from "../contract/job-list.ts";
import { repositoryName } from "../contract/repository-url.ts";
import type { ListQuery } from "../store/job-list.ts";

/** What a caller asks for as the store's query. */
export const queryOf = ({
  status,
  since,
  limit,
  session_id,
  cursor,
  ...wanted
}: ListJobsInput): ListQuery => ({
  limit,
  session_id,
  cursor,
  status: status === "all" ? "" : status,
  ...(since !== "" && { since: Date.parse(since) }),
  ...(Object.values(wanted).some((text) => text.trim() !== "") && { isWanted: jobFilter(wanted) }),
});

type Filtered = { task: string; repo_url: string; profile: string };

/** Filters of a job list. An empty text matches every job; `q` is words of the task. */
type Wanted = Pick<Filtered, "repo_url" | "profile"> & { q: string };

/** Whether a job is one of those. */
const jobFilter = ({ repo_url, profile, q }: Wanted) => {
  const repository = `/${repositoryName(repo_url)}`;
  const words = q.toLowerCase().split(/\s+/);
  return (job: Filtered): boolean => {
    const task = job.task.toLowerCase();
    return (
      (profile === "" || job.profile === profile) &&
      (repo_url === "" || `/${repositoryName(job.repo_url)}`.endsWith(repository)) &&
      words.every((word) => task.includes(word))
    );
  };
};
