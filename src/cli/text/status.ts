import type { JobStatus } from "../../contract/job.ts";
import type { WorktreeStatus } from "../../contract/worktree.ts";
import type { Format, Paint } from "../print.ts";

// The contract's own list comes with its schemas, whose import would cost every `svc --help` a third of its time.
const ofJobs = {
  queued: "yellow",
  running: "cyan",
  succeeded: "green",
  failed: "red",
  cancelled: "gray",
  expired: "gray",
} as const satisfies Record<JobStatus, Format>;

const ofWorktrees = {
  preparing: "yellow",
  ready: "green",
  in_use: "cyan",
  failed: "red",
  removed: "gray",
} as const satisfies Record<WorktreeStatus, Format>;

export const jobStatuses: string[] = Object.keys(ofJobs);

export const paintStatus = (status: JobStatus | WorktreeStatus, paint: Paint): string =>
  paint({ ...ofJobs, ...ofWorktrees }[status], status);
