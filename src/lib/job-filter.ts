import { repositoryName } from "./repository-name.ts";

type Filtered = { task: string; repo_url: string; profile: string };

/** Filters of a job list. An empty text matches every job; `q` is words of the task. */
type Wanted = Pick<Filtered, "repo_url" | "profile"> & { q: string };

/** Whether a job is one of those. */
export const jobFilter = ({ repo_url, profile, q }: Wanted) => {
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
