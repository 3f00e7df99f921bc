import type { JobStatus } from "../contract/job.ts";
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

const formats = {
  queued: "yellow",
  running: "cyan",
  succeeded: "green",
  failed: "red",
  cancelled: "gray",
  expired: "gray",
  preparing: "yellow",
  ready: "green",
  in_use: "cyan",
  removed: "gray",
} as const satisfies Record<JobStatus | WorktreeStatus, Format>;

export const paintStatus = (status: JobStatus | WorktreeStatus, paint: Paint): string =>
  paint(formats[status], status);
