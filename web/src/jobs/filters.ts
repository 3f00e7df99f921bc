import { useCallback, useMemo } from "react";
import { useSearchParams } from "wouter";
import { jobFilter } from "../../../src/lib/job-filter.ts";
import type { Job } from "../../../src/contract/job.ts";
import type { ListJobsInput } from "../../../src/contract/job-list.ts";

/** What the list is narrowed to, as the address has it: parameters of `GET /jobs`. Empty: not. */
export type Filters = Pick<ListJobsInput, "status" | "repo_url" | "profile" | "since" | "q">;

const names = ["status", "repo_url", "profile", "since", "q"] as const;

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

/** The filters of the address, and the function that changes some of them. Typing replaces the entry in the history. */
export const useFilters = () => {
  const [params, setParams] = useSearchParams();
  const text = params.toString();
  const filters = useMemo(() => {
    const given = new URLSearchParams(text);
    const status = statuses.find((each) => each === given.get("status")) ?? "";
    const [repo_url = "", profile = "", since = "", q = ""] = names
      .slice(1)
      .map((name) => given.get(name) ?? "");
    return { status, repo_url, profile, since, q } satisfies Filters;
  }, [text]);
  const change = useCallback(
    (changes: Partial<Filters>) =>
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          for (const [name, value] of Object.entries(changes)) {
            if (value === "") next.delete(name);
            else next.set(name, value);
          }
          return next;
        },
        { replace: Object.keys(changes).join() === "q" },
      ),
    [setParams],
  );
  return [filters, change] as const;
};

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
