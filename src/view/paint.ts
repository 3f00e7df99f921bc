import type { Job, JobStatus } from "../contract/job.ts";
import type { WorktreeStatus } from "../contract/worktree.ts";

type Style =
  | "bold"
  | "dim"
  | "italic"
  | "inverse"
  | "underline"
  | "red"
  | "green"
  | "yellow"
  | "blue"
  | "magenta"
  | "cyan"
  | "gray";

/** One style of a terminal, or several at once. */
export type Format = Style | Style[];

/** Colours a text, or returns it unchanged where colours are off. */
export type Paint = (format: Format, text: string) => string;

export const unpainted: Paint = (_format, text) => text;

/** How something is drawn. `columns` undefined: there is no terminal, nothing is cut. */
export type Layout = { paint: Paint; columns?: number | undefined };

/** The state that people are shown: a job that runs and waits for one of them has a state of its own. */
export type JobState = JobStatus | "waiting";

export const stateOf = ({ status, waiting }: Pick<Job, "status" | "waiting">): JobState =>
  status === "running" && waiting ? "waiting" : status;

const formats = {
  queued: "yellow",
  running: "cyan",
  succeeded: "green",
  failed: "red",
  cancelled: "gray",
  expired: "gray",
  waiting: "magenta",
  preparing: "yellow",
  ready: "green",
  in_use: "cyan",
  removed: "gray",
} as const satisfies Record<Status, Format>;

type Status = JobState | WorktreeStatus;

export const paintStatus = (status: Status, paint: Paint): string => paint(formats[status], status);
