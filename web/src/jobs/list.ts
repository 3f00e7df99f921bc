import { useInfiniteQuery, type InfiniteData } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo } from "react";
import type { Job } from "../../../src/contract/job.ts";
import type { JobChange } from "../../../src/contract/job-list.ts";
import { following, onChanges } from "../shell/changes.ts";
import { client, queries } from "../shell/service.ts";
import { isListed, type Filters } from "./filters.ts";

type Page = { jobs: Job[]; next_cursor: string | null };
type Pages = InfiniteData<Page, string>;

const pageSize = 100;

/** The jobs of these filters, newest first, as they change; `more` reads the next page. */
export const useJobList = (filters: Filters) => {
  const key = useMemo(() => ["jobs", filters] as const, [filters]);
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: async ({ pageParam, signal }) => {
      await following;
      return client().list_jobs({ ...filters, limit: pageSize, cursor: pageParam }, { signal });
    },
    initialPageParam: "",
    getNextPageParam: (page: Page) => page.next_cursor,
    // What changes is told.
    staleTime: Infinity,
    // To compare 10,000 jobs with those of before takes longer than a frame.
    structuralSharing: false,
    // While other jobs are searched for, the list stays.
    placeholderData: (before) => before,
  });
  useEffect(
    () =>
      onChanges((changes) => {
        if (changes.some(({ type }) => type === "behind")) void queries.invalidateQueries({ queryKey: key });
        queries.setQueryData<Pages>(key, (pages) => pages && changed(pages, changes, filters));
      }),
    [key, filters],
  );
  const { data, hasNextPage, isFetching, isFetchNextPageError, fetchNextPage } = query;
  const jobs = useMemo(() => data?.pages.flatMap((page) => page.jobs) ?? [], [data]);
  const more = useCallback(() => {
    // After a failure the user decides.
    if (hasNextPage && !isFetching && !isFetchNextPageError) void fetchNextPage();
  }, [hasNextPage, isFetching, isFetchNextPageError, fetchNextPage]);
  return { query, jobs, more };
};

/** The pages after the changes: jobs are replaced where they stand, new ones come first, others leave. */
const changed = (pages: Pages, changes: readonly JobChange[], filters: Filters): Pages => {
  const latest = new Map<string, Job | null>();
  for (const change of changes) {
    if (change.type === "job") latest.set(change.job.id, change.job);
    if (change.type === "removed") latest.set(change.id, null);
  }
  if (latest.size === 0) return pages;
  const after = pages.pages.map((page) => {
    if (!page.jobs.some(({ id }) => latest.has(id))) return page;
    const jobs = page.jobs.flatMap((job) => {
      const next = latest.get(job.id);
      latest.delete(job.id);
      return next === undefined ? [job] : next !== null && isListed(next, filters) ? [next] : [];
    });
    return { ...page, jobs };
  });
  const [first, ...rest] = after;
  if (first === undefined) return pages;
  return { ...pages, pages: [withNew(first, [...latest.values()], filters), ...rest] };
};

/** Older jobs that now belong into the list are found when it is read again; here only those that fit its first page. */
const withNew = (page: Page, jobs: readonly (Job | null)[], filters: Filters): Page => {
  const oldest = page.next_cursor === null ? "" : (page.jobs.at(-1)?.created_at ?? "");
  const added = jobs.filter(
    (job): job is Job => job !== null && job.created_at >= oldest && isListed(job, filters),
  );
  if (added.length === 0) return page;
  const sorted = [...added, ...page.jobs].toSorted((one, other) =>
    one.created_at < other.created_at
      ? 1
      : one.created_at > other.created_at
        ? -1
        : one.id < other.id
          ? 1
          : -1,
  );
  return { ...page, jobs: sorted };
};
