import { memo, useEffect, useRef } from "react";
import { Link } from "wouter";
import type { Job } from "../../../src/contract/job.ts";
import { oneLine, sanitise } from "../../../src/view/sanitise.ts";
import { Change } from "../parts/change.tsx";
import { Money } from "../parts/money.tsx";
import { isWeb, Repository } from "../parts/repository.tsx";
import { State } from "../parts/state.tsx";
import { Ago, Duration } from "../parts/time.tsx";

const columns = ["State", "Id", "Task", "Repository", "Profile", "Change", "PR", "Cost", "Time", "Age"];

export const Heads = () => (
  <div role="row" aria-rowindex={1} className="job-row heads">
    {columns.map((name) => (
      <span key={name} role="columnheader" className={name.toLowerCase()}>
        {name}
      </span>
    ))}
  </div>
);

const firstLine = (task: string): string => oneLine(/\S[^\n]{0,299}/.exec(task)?.[0] ?? "");

type Props = { job: Job; index: number; isSelected: boolean };

export const Row = memo(({ job, index, isSelected }: Props) => {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (isSelected) link.current?.focus({ preventScroll: true });
  }, [isSelected]);
  const {
    id,
    status,
    task,
    repo_url,
    profile,
    diff_stat,
    pr_url,
    cost_usd,
    created_at,
    started_at,
    ended_at,
  } = job;
  return (
    <div role="row" aria-rowindex={index + 2} className="job-row" data-selected={isSelected}>
      <span role="cell" className="state">
        <State status={status} />
      </span>
      <span role="cell" className="id mono">
        {id.slice(0, 8)}
      </span>
      <span role="cell" className="task">
        <Link ref={link} href={`/jobs/${id}`} title={sanitise(task.slice(0, 2000))}>
          {firstLine(task)}
        </Link>
      </span>
      <span role="cell" className="repository">
        <Repository url={repo_url} />
      </span>
      <span role="cell" className="profile">
        {profile}
      </span>
      <span role="cell" className="change">
        <Change stat={diff_stat} />
      </span>
      <span role="cell" className="pr">
        {isWeb(pr_url) && (
          <a href={pr_url} target="_blank" rel="noreferrer" title={pr_url}>
            {/\d+$/.exec(pr_url)?.[0] ?? "open"}
          </a>
        )}
      </span>
      <span role="cell" className="cost">
        <Money usd={cost_usd} estimated={job.cost_estimated} />
      </span>
      <span role="cell" className="time">
        {started_at !== null && <Duration from={started_at} to={ended_at} />}
      </span>
      <span role="cell" className="age">
        <Ago at={created_at} />
      </span>
    </div>
  );
});
