import type { JobStatus } from "../../contract/job.ts";
import type { WorktreeStatus } from "../../contract/worktree.ts";
import type { Format, Paint } from "../print.ts";

// The contract's own list comes with its schemas, whose import would cost every `svc --help` a third of its time.
export const jobStatuses: readonly JobStatus[] = [
  "queued",
  "running",
  "succeeded",
  "failed",
  "cancelled",
  "expired",
];

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
