import { useMemo, type ReactNode } from "react";
import { oneLine } from "../../../src/view/sanitise.ts";
import type { Job } from "../../../src/contract/job.ts";
import { Choice, Search, Since } from "../parts/filters.tsx";
import { shortRepository } from "../parts/repository.tsx";
import { statuses, type Filters } from "./list.ts";

type Props = {
  filters: Filters;
  change: (changes: Partial<Filters>) => void;
  /** Those shown: their repositories and profiles are offered. */
  jobs: readonly Job[];
  onNew: () => void;
  /** How many there are. */
  children: ReactNode;
};

export const FilterBar = ({ filters, change, jobs, onNew, children }: Props) => {
  const repositories = useValues(jobs, "repo_url");
  return (
    <search className="filters row wrap">
      <Search label="Search tasks" text={filters.q} change={(q) => change({ q })} />
      <Choice
        label="Status"
        any="Status"
        value={filters.status}
        offered={statuses}
        change={(status) => change({ status: status as Filters["status"] })}
      />
      <Choice
        label="Repository"
        any="Repository"
        value={filters.repo_url}
        offered={repositories}
        name={(url) => {
          const name = shortRepository(url);
          const isOne = repositories.every((other) => other === url || shortRepository(other) !== name);
          return isOne ? name : oneLine(url);
        }}
        change={(repo_url) => change({ repo_url })}
      />
      <Choice
        label="Profile"
        any="Profile"
        value={filters.profile}
        offered={useValues(jobs, "profile")}
        change={(profile) => change({ profile })}
      />
      <Since value={filters.since} change={(since) => change({ since })} />
      <span className="count number">{children}</span>
      <button type="button" className="primary" onClick={onNew}>
        New job
      </button>
    </search>
  );
};

/** The different values, each once, that of the newest job first. */
const useValues = (jobs: readonly Job[], field: "repo_url" | "profile"): string[] =>
  useMemo(() => [...new Set(jobs.map((job) => job[field]))].filter((value) => value !== ""), [jobs, field]);
