import { useCallback, useState } from "react";
import { useLocation } from "wouter";
import { Empty, Failed, FurtherFailed, Loading } from "../parts/states.tsx";
import { Title } from "../parts/title.tsx";
import { useIsNarrow } from "../parts/media.ts";
import { VirtualList } from "../parts/virtual-list.tsx";
import { useShortcut } from "../shell/shortcuts.tsx";
import { createStore } from "../shell/store.ts";
import { FilterBar } from "./filter-bar.tsx";
import { useFilters, useJobList } from "./list.ts";
import { NewJob } from "./new-job.tsx";
import { Heads, Row } from "./row.tsx";
import "./jobs.css";

/** The job that the keys act on, also after one comes back to the list. */
const selected = createStore<string | null>(null);

export default function JobsPage() {
  const [filters, change] = useFilters();
  const { query, jobs, more } = useJobList(filters);
  const [isWriting, setWriting] = useState(false);
  const [, navigate] = useLocation();
  const id = selected.use();
  const at = jobs.findIndex((job) => job.id === id);
  const isNarrow = useIsNarrow();
  const rowKey = useCallback((index: number) => jobs[index]?.id ?? index, [jobs]);

  const select = (index: number): void =>
    selected.set(jobs[Math.max(0, Math.min(jobs.length - 1, index))]?.id ?? null);
  useShortcut("j", "Next job", () => select(at + 1));
  useShortcut("k", "Job before", () => select(at - 1));
  useShortcut("Enter", "Open the job", () => {
    if (at >= 0) navigate(`/jobs/${id}`);
  });
  useShortcut("n", "New job", () => setWriting(true));

  const isFiltered = Object.values(filters).some((value) => value !== "");
  const empty = isFiltered ? (
    <Empty title="No job fits">
      <button
        type="button"
        onClick={() => change({ status: "", repo_url: "", profile: "", since: "", q: "" })}
      >
        Show all jobs
      </button>
    </Empty>
  ) : (
    <Empty title="No jobs yet">
      Press <kbd>n</kbd> and say what should be done. In a shell: <code>svc run "…" --repo …</code>
    </Empty>
  );

  return (
    <div className="jobs column">
      <Title hidden>Jobs</Title>
      <FilterBar filters={filters} change={change} jobs={jobs} onNew={() => setWriting(true)}>
        {query.data &&
          `${jobs.length.toLocaleString("en")}${query.hasNextPage ? "+" : ""} ${jobs.length === 1 ? "job" : "jobs"}`}
      </FilterBar>
      {query.data === undefined ? (
        query.error ? (
          <Failed error={query.error} retry={() => void query.refetch()} />
        ) : (
          <Loading />
        )
      ) : jobs.length === 0 && !query.hasNextPage ? (
        empty
      ) : (
        <VirtualList
          role="table"
          aria-label="Jobs"
          aria-rowcount={query.hasNextPage ? -1 : jobs.length + 1}
          className="job-table"
          count={jobs.length}
          estimate={isNarrow ? 58 : 36}
          rowKey={rowKey}
          active={at}
          onNearEnd={more}
          head={<Heads />}
          row={(index) => {
            const job = jobs[index];
            return job && <Row job={job} index={index} isSelected={job.id === id} />;
          }}
        />
      )}
      {query.isFetchNextPageError && (
        <FurtherFailed
          what="Older jobs could not be read: "
          error={query.error}
          retry={() => void query.fetchNextPage()}
        />
      )}
      {isWriting && (
        <NewJob
          onClose={() => setWriting(false)}
          onSubmitted={(job) => {
            selected.set(job.id);
            navigate(`/jobs/${job.id}`);
          }}
        />
      )}
    </div>
  );
}
