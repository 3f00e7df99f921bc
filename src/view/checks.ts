import type { Check } from "../contract/check.ts";
import type { Job } from "../contract/job.ts";
import { duration } from "./quantities.ts";
import { oneLine } from "./sanitise.ts";

/** How a check ended, for a person. */
export const checkEnd = ({
  status,
  exit_code: code,
  duration_ms: ms,
}: Pick<Check, "status" | "exit_code" | "duration_ms">): string => {
  if (status === "skipped") return "skipped";
  const how = status === "failed_before" ? "failed, as before the change" : status.replaceAll("_", " ");
  const exit = status === "passed" || code === null ? "" : `, exit code ${code}`;
  return `${how}${exit}, ${duration(ms)}`;
};

/** The checks of a job, a line each. */
export const checkLines = ({ checks }: Pick<Job, "checks">): string[] =>
  checks.map((check) => `${oneLine(check.name)}: ${checkEnd(check)}`);
