import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import type { Job } from "../../../src/contract/job.ts";
import { shortRepository } from "../parts/repository.tsx";
import { useShortcut } from "../shell/shortcuts.tsx";
import { statuses, type Filters } from "./filters.ts";

type Props = {
  filters: Filters;
  change: (changes: Partial<Filters>) => void;
  /** Those shown: their repositories and profiles are offered. */
  jobs: readonly Job[];
  onNew: () => void;
  /** How many there are. */
  children: ReactNode;
};

export const FilterBar = ({ filters, change, jobs, onNew, children }: Props) => (
  <search className="filters">
    <Search text={filters.q} change={(q) => change({ q })} />
    <Choice
      label="Status"
      any="Status"
      value={filters.status}
      offered={statuses.filter((status) => status !== "")}
      change={(status) => change({ status: status as Filters["status"] })}
    />
    <Choice
      label="Repository"
      any="Repository"
      value={filters.repo_url}
      offered={useValues(jobs, "repo_url")}
      name={shortRepository}
      change={(repo_url) => change({ repo_url })}
    />
    <Choice
      label="Profile"
      any="Profile"
      value={filters.profile}
      offered={useValues(jobs, "profile")}
      change={(profile) => change({ profile })}
    />
    <Choice
      label="Time"
      any="Time"
      value={filters.since}
      offered={[daysAgo(0), daysAgo(7), daysAgo(30)]}
      name={(since) => names[[daysAgo(0), daysAgo(7), daysAgo(30)].indexOf(since)] ?? `Since ${since}`}
      change={(since) => change({ since })}
    />
    <span className="count number">{children}</span>
    <button type="button" className="primary" onClick={onNew}>
      New job
    </button>
  </search>
);

const names = ["Today", "Last 7 days", "Last 30 days"];

/** A date, which the service reads in UTC. */
const daysAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

/** The different values, each once, that of the newest job first. */
const useValues = (jobs: readonly Job[], field: "repo_url" | "profile"): string[] =>
  useMemo(() => [...new Set(jobs.map((job) => job[field]))].filter((value) => value !== ""), [jobs, field]);

type ChoiceProps = {
  label: string;
  any: string;
  value: string;
  offered: readonly string[];
  name?: (value: string) => string;
  change: (value: string) => void;
};

const Choice = ({ label, any, value, offered, name = (each) => each, change }: ChoiceProps) => (
  <select
    aria-label={label}
    value={value}
    data-set={value !== ""}
    onChange={({ target }) => change(target.value)}
  >
    <option value="">{any}</option>
    {(value === "" || offered.includes(value) ? offered : [value, ...offered]).map((each) => (
      <option key={each} value={each}>
        {name(each)}
      </option>
    ))}
  </select>
);

const Search = ({ text, change }: { text: string; change: (text: string) => void }) => {
  const field = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState(text);
  useShortcut("/", "Search", () => field.current?.focus());
  // The address changes by the browser's own buttons too.
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    if (typed === text) return undefined;
    const pause = setTimeout(() => change(typed), 200);
    return () => clearTimeout(pause);
  });
  return (
    <input
      ref={field}
      type="search"
      aria-label="Search tasks"
      placeholder="Search tasks  /"
      value={typed}
      onChange={({ target }) => setTyped(target.value)}
      onKeyDown={({ key }) => {
        if (key === "Escape" || key === "Enter") field.current?.blur();
      }}
    />
  );
};
