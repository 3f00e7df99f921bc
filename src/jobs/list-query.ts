import type { ListJobsInput } from "../contract/job-list.ts";
import { repositoryName } from "../lib/repository-name.ts";
import type { JobRecord } from "../store/job-record.ts";
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
  ...(Object.values(wanted).some((text) => text.trim() !== "") && { isWanted: filterOf(wanted) }),
});

const filterOf = ({ repo_url, profile, q }: Pick<ListJobsInput, "repo_url" | "profile" | "q">) => {
  const repository = `/${repositoryName(repo_url)}`;
  const words = q.toLowerCase().split(/\s+/);
  return (record: JobRecord): boolean => {
    const task = record.task.toLowerCase();
    return (
      (profile === "" || record.profile === profile) &&
      (repo_url === "" || `/${repositoryName(record.repo_url)}`.endsWith(repository)) &&
      words.every((word) => task.includes(word))
    );
  };
};
