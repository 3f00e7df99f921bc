import { memo, useEffect, useRef, type ReactNode } from "react";
import { Link } from "wouter";
import type { Job } from "../../../src/contract/job.ts";
import { whyFailed } from "../../../src/view/advice.ts";
import { isDraft, leftRed } from "../../../src/view/checks.ts";
import { stateOf } from "../../../src/view/paint.ts";
import { cutText } from "../../../src/view/quantities.ts";
import { oneLine, sanitise } from "../../../src/view/sanitise.ts";
import { waitingLine } from "../../../src/view/waiting.ts";
import { Ago, Change, Duration, isWeb, Money, Repository, State } from "../parts/values.tsx";

type Props = { job: Job; index: number; isSelected: boolean };

/** The head of a column is its class too. */
const columns: readonly (readonly [head: string, cell: (props: Props) => ReactNode])[] = [
  ["State", ({ job }) => <State status={stateOf(job)} />],
  ["Id", ({ job }) => <span className="mono">{job.id.slice(0, 8)}</span>],
  ["Task", (props) => <TaskLink {...props} />],
  ["Repository", ({ job }) => <Repository url={job.repo_url} />],
  ["Profile", ({ job }) => job.profile],
  ["Change", ({ job }) => <Change stat={job.diff_stat} />],
  ["PR", ({ job }) => isWeb(job.pr_url) && <PullRequest url={job.pr_url} isDraft={isDraft(job)} />],
  ["Cost", ({ job }) => <Money usd={job.cost_usd} estimated={job.cost_estimated} />],
  ["Time", ({ job }) => job.started_at !== null && <Duration from={job.started_at} to={job.ended_at} />],
  ["Age", ({ job }) => <Ago at={job.created_at} />],
];

export const Heads = () => (
  <div role="row" aria-rowindex={1} className="job-row heads small faint">
    {columns.map(([name]) => (
      <span key={name} role="columnheader" className={name.toLowerCase()}>
        {name}
      </span>
    ))}
  </div>
);

export const Row = memo((props: Props) => (
  <div role="row" aria-rowindex={props.index + 2} className="job-row opens" data-selected={props.isSelected}>
    {columns.map(([name, cell]) => (
      <span key={name} role="cell" className={name.toLowerCase()}>
        {cell(props)}
      </span>
    ))}
  </div>
));

const firstLine = (task: string): string =>
  oneLine(cutText(/\S[^\n]*/.exec(task.slice(0, 2000))?.[0] ?? "", 300));

const TaskLink = ({ job, isSelected }: Props) => {
  const { id, task, outcome, summary } = job;
  const waits = waitingLine(job);
  const [red, why] = [leftRed(job), whyFailed(job)];
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (isSelected) link.current?.focus({ preventScroll: true });
  }, [isSelected]);
  return (
    <Link ref={link} className="whole" href={`/jobs/${id}`} title={sanitise(task.slice(0, 2000))}>
      {red !== null && <strong className="fault">! </strong>}
      {firstLine(task)}
      {(red ?? why) !== null && <span className="fault"> → {red ?? why}</span>}
      {waits !== null && <span> → {firstLine(waits)}</span>}
      {outcome !== null && outcome !== job.failure_reason && (
        <span className="faint">
          {" "}
          → {outcome.replaceAll("_", " ")}
          {summary !== null && `: ${firstLine(summary)}`}
        </span>
      )}
    </Link>
  );
};

const PullRequest = ({ url, isDraft: isHeld }: { url: string; isDraft: boolean }) => (
  <a href={url} target="_blank" rel="noreferrer" title={isHeld ? `Draft: ${url}` : url}>
    {/\d+$/.exec(url)?.[0] ?? "open"}
  </a>
);
