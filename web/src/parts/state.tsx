import type { JobStatus } from "../../../src/contract/job.ts";
import "./state.css";

type Props = {
  status: JobStatus;
  /** Without the word, for those who see. */
  compact?: boolean;
};

/** The state of a job: a shape, a colour and a word, so that none of them is needed alone. */
export const State = ({ status, compact = false }: Props) => (
  <span className="job-state" data-status={status} title={compact ? status : undefined}>
    <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      {shapes[status]}
    </svg>
    <span className={compact ? "visually-hidden" : undefined}>{status}</span>
  </span>
);

const ring = <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" strokeWidth="1.5" />;
const disc = <circle cx="8" cy="8" r="7" fill="currentColor" />;
const cut = { stroke: "var(--paper)", strokeWidth: 1.75, fill: "none" };

const shapes: Record<JobStatus, React.ReactNode> = {
  queued: ring,
  running: (
    <>
      <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" strokeWidth="1.5" opacity=".35" />
      <path d="M8 2.5a5.5 5.5 0 0 1 5.5 5.5" fill="none" stroke="currentColor" strokeWidth="2" />
    </>
  ),
  succeeded: (
    <>
      {disc}
      <path d="M4.7 8.3l2.3 2.2 4.3-4.7" {...cut} />
    </>
  ),
  failed: (
    <>
      {disc}
      <path d="M5.4 5.4l5.2 5.2m0-5.2l-5.2 5.2" {...cut} />
    </>
  ),
  cancelled: (
    <>
      {ring}
      <path d="M4.2 11.8l7.6-7.6" stroke="currentColor" strokeWidth="1.5" />
    </>
  ),
  expired: (
    <circle
      cx="8"
      cy="8"
      r="5.5"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeDasharray="2 2.3"
    />
  ),
};
