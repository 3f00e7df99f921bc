import { asksPerson, type Job, type JobStatus } from "../contract/job.ts";
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

export type Format = Style | Style[];

/** Colours a text, or returns it unchanged where colours are off. */
export type Paint = (format: Format, text: string) => string;

export const unpainted: Paint = (_format, text) => text;

/** How something is drawn. `columns` undefined: there is no terminal, nothing is cut. */
export type Layout = { paint: Paint; columns?: number | undefined };

/** The state that people are shown: jobs that wait for one of them, or for a usage limit, have states of their own. One that asks the model again runs. */
export type JobState = JobStatus | "waiting" | "limited";

export const stateOf = ({ status, waiting, held }: Pick<Job, "status" | "waiting" | "held">): JobState => {
  if (status === "running" && asksPerson(waiting)) return "waiting";
  if (status === "running" && waiting?.kind === "limit") return "limited";
  return status === "queued" && held ? "limited" : status;
};

const formats = {
  queued: "yellow",
  running: "cyan",
  succeeded: "green",
  failed: "red",
  cancelled: "gray",
  expired: "gray",
  waiting: "magenta",
  limited: "yellow",
  preparing: "yellow",
  ready: "green",
  in_use: "cyan",
  removed: "gray",
} as const satisfies Record<Status, Format>;

type Status = JobState | WorktreeStatus;

export const paintStatus = (status: Status, paint: Paint): string => paint(formats[status], status);
