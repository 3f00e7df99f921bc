import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useLocation } from "wouter";
import type { Job, Outcome } from "../../../src/contract/job.ts";
import type { ListJobsInput } from "../../../src/contract/job-list.ts";
import { stateOf } from "../../../src/view/paint.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { useAddress } from "../parts/address.ts";
import { Filters } from "../parts/filters.tsx";
import { useIsNarrow } from "../parts/media.ts";
import { Answer, Empty, Title } from "../parts/states.tsx";
import { shortRepository } from "../parts/values.tsx";
import { VirtualList } from "../parts/virtual-list.tsx";
import { client } from "../shell/service.ts";
import { Button, useShortcut } from "../shell/shortcuts.tsx";
import { createStore } from "../shell/store.ts";
import { NewJob } from "./new-job.tsx";
import { Heads, Row } from "./row.tsx";

/** What the list is narrowed to, as the address has it: parameters of `GET /jobs`. */
type Asked = Pick<ListJobsInput, "status" | "outcome" | "repo_url" | "profile" | "since" | "q">;

const everything: Asked = { status: "", outcome: "", repo_url: "", profile: "", since: "", q: "" };

const statuses = ["active", "queued", "running", "succeeded", "failed", "cancelled", "expired"];

const outcomes: readonly Outcome[] = ["changed", "no_change", "answered", "question", "plan"];

/** The jobs of these filters, newest first, a page at a time; read again whenever jobs change. */
const useJobs = (asked: Asked) =>
  useInfiniteQuery({
    queryKey: ["list_jobs", "pages", asked],
    queryFn: ({ pageParam, signal }) =>
      client().list_jobs({ ...asked, limit: 100, cursor: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (page): string | null => page.next_cursor,
    // To compare 10,000 jobs with those of before takes longer than a frame.
    structuralSharing: false,
    // While other jobs are searched for, the list stays.
    placeholderData: (before) => before,
  });

/** The job that the keys act on, also after one comes back to the list. */
const selected = createStore<string | null>(null);

export default function JobsPage() {
  const [asked, change] = useAddress(["status", "outcome", "repo_url", "profile", "since", "q"]);
  const query = useJobs(asked as Asked);
  const { data, hasNextPage } = query;
  const jobs = useMemo(() => waitingFirst(data?.pages.flatMap((page) => page.jobs) ?? []), [data]);
  const repositories = useValues(jobs, "repo_url");
  const [isWriting, setWriting] = useState(false);
  const [, navigate] = useLocation();
  const id = selected.use();
  const at = jobs.findIndex((job) => job.id === id);
  const estimate = useIsNarrow() ? 58 : 36;

  const select = (index: number): void =>
    selected.set(jobs[Math.max(0, Math.min(jobs.length - 1, index))]?.id ?? null);
  useShortcut("j", "Next job", () => select(at + 1));
  useShortcut("k", "Job before", () => select(at - 1));
  useShortcut("Enter", "Open the job", () => {
    if (at >= 0) navigate(`/jobs/${id}`);
  });

  const nameOf = (url: string): string => {
    const name = shortRepository(url);
    const isOne = repositories.every((other) => other === url || shortRepository(other) !== name);
    return isOne ? name : oneLine(url);
  };
  const count = `${jobs.length.toLocaleString("en")}${hasNextPage ? "+" : ""}`;
  return (
    <div className="column">
      <Title hidden>Jobs</Title>
      <Filters
        search="Search tasks"
        choices={[
          { name: "status", label: "Status", offered: statuses },
          { name: "outcome", label: "Outcome", offered: outcomes },
          { name: "repo_url", label: "Repository", offered: repositories, shown: nameOf },
          { name: "profile", label: "Profile", offered: useValues(jobs, "profile") },
        ]}
        asked={asked}
        change={change}
      >
        <span className="end faint number">{data && `${count} ${jobs.length === 1 ? "job" : "jobs"}`}</span>
        <Button text="New job" className="primary" keys="n" label="New job" run={() => setWriting(true)} />
      </Filters>
      <Answer query={query}>
        {() =>
          jobs.length === 0 && !hasNextPage ? (
            <Nothing isNarrowed={Object.values(asked).some(Boolean)} show={() => change(everything)} />
          ) : (
            <VirtualList
              role="table"
              aria-label="Jobs"
              aria-rowcount={hasNextPage ? -1 : jobs.length + 1}
              className="job-table"
              items={jobs}
              keyOf={(job) => job.id}
              estimate={estimate}
              active={at}
              query={query}
              head={<Heads />}
              row={(job, index) => <Row job={job} index={index} isSelected={job.id === id} />}
            />
          )
        }
      </Answer>
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

/** Those that wait for a person, then the others. */
const waitingFirst = (jobs: readonly Job[]): readonly Job[] => {
  const waiting = jobs.filter((job) => stateOf(job) === "waiting");
  return waiting.length === 0 ? jobs : [...waiting, ...jobs.filter((job) => stateOf(job) !== "waiting")];
};

/** The different values, each once, that of the newest job first. */
const useValues = (jobs: readonly Job[], field: "repo_url" | "profile"): string[] =>
  useMemo(() => [...new Set(jobs.map((job) => job[field]))].filter(Boolean), [jobs, field]);

const Nothing = ({ isNarrowed, show }: { isNarrowed: boolean; show: () => void }) =>
  isNarrowed ? (
    <Empty title="No job fits">
      <Button text="Show all jobs" run={show} />
    </Empty>
  ) : (
    <Empty title="No jobs yet">
      Press <kbd>n</kbd> and say what should be done. In a shell: <code>svc run "…" --repo …</code>
    </Empty>
  );
