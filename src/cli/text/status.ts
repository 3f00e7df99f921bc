import type { styleText } from "node:util";
import type { JobStatus } from "../../contract/job.ts";
import type { Paint } from "./paint.ts";

// The contract's own list comes with its schemas, whose import would cost every `svc --help` a third of its time.
const formats = {
  queued: "yellow",
  running: "cyan",
  succeeded: "green",
  failed: "red",
  cancelled: "gray",
  expired: "gray",
} as const satisfies Record<JobStatus, Parameters<typeof styleText>[0]>;

export const statuses: string[] = Object.keys(formats);

export const paintStatus = (status: JobStatus, paint: Paint): string => paint(formats[status], status);
