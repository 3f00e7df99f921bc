import { useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import type { Job } from "../../../src/contract/job.ts";
import type { ListJobsInput } from "../../../src/contract/job-list.ts";
import { useAddress } from "../parts/address.ts";
import { client } from "../shell/service.ts";

/** What the list is narrowed to, as the address has it: parameters of `GET /jobs`. Empty: not. */
export type Filters = Pick<ListJobsInput, "status" | "repo_url" | "profile" | "since" | "q">;

export const statuses = [
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

type Page = { jobs: Job[]; next_cursor: string | null };

/** The jobs of these filters, newest first, read again whenever jobs change; `more` reads the next page. */
export const useJobList = (filters: Filters) => {
  const query = useInfiniteQuery({
    queryKey: ["jobs", filters],
    queryFn: ({ pageParam, signal }) =>
      client().list_jobs({ ...filters, limit: 100, cursor: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page: Page) => page.next_cursor,
    // To compare 10,000 jobs with those of before takes longer than a frame.
    structuralSharing: false,
    // While other jobs are searched for, the list stays.
    placeholderData: (before) => before,
  });
  const { data, hasNextPage, isFetching, isFetchNextPageError, fetchNextPage } = query;
  const jobs = useMemo(() => data?.pages.flatMap((page) => page.jobs) ?? [], [data]);
  const more = useCallback(() => {
    // After a failure the user decides.
    if (hasNextPage && !isFetching && !isFetchNextPageError) void fetchNextPage();
  }, [hasNextPage, isFetching, isFetchNextPageError, fetchNextPage]);
  return { query, jobs, more };
};
