import { jobFilter } from "../../../src/lib/job-filter.ts";
import type { Job } from "../../../src/contract/job.ts";
import type { ListJobsInput } from "../../../src/contract/job-list.ts";
import { useAddress } from "../parts/address.ts";

/** What the list is narrowed to, as the address has it: parameters of `GET /jobs`. Empty: not. */
export type Filters = Pick<ListJobsInput, "status" | "repo_url" | "profile" | "since" | "q">;

export const statuses = [
  "",
  "active",
  "queued",
  "running",
  "succeeded",
  "failed",
  "cancelled",
  "expired",
] as const satisfies readonly Filters["status"][];

const read = (value: (name: string) => string): Required<Filters> => ({
  status: statuses.find((each) => each === value("status")) ?? "",
  repo_url: value("repo_url"),
  profile: value("profile"),
  since: value("since"),
  q: value("q"),
});

export const useFilters = () => useAddress(read);

/** Whether a job that has changed belongs into a list, as the service decides it. */
export const isListed = (job: Job, { status, since, ...wanted }: Filters): boolean => {
  const statusFits =
    status === "" ||
    status === job.status ||
    (status === "active" && (job.status === "queued" || job.status === "running"));
  return (
    statusFits && (since === "" || job.created_at >= new Date(since).toISOString()) && jobFilter(wanted)(job)
  );
};
