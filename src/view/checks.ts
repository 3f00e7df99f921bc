import { type Check, isRed, stillRed } from "../contract/check.ts";
import { isFinal, type Job } from "../contract/job.ts";
import { duration } from "./quantities.ts";
import { oneLine, sanitise } from "./sanitise.ts";

/** Which checks a job that has ended leaves red as they were before; null: none. */
export const leftRed = ({ status, checks }: Pick<Job, "status" | "checks">): string | null =>
  isFinal(status) ? stillRed(checks) : null;

/** Whether its pull requests are drafts: its checks are red. */
export const isDraft = ({
  failure_reason: reason,
  pr_url,
}: Pick<Job, "failure_reason" | "pr_url">): boolean => reason === "checks_failed" && pr_url !== null;

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

/** Lines of a red check's output that a page of a job shows; `--json` has all that is kept. */
const shownLines = 20;

/** The end of what each red check has said, for a person. */
export const redOutputs = ({ checks }: Pick<Job, "checks">): { title: string; lines: string[] }[] =>
  checks.filter(isRed).map(({ name, log }) => ({
    title: `Output of ${oneLine(name)}`,
    lines: sanitise(log).trimEnd().split("\n").slice(-shownLines),
  }));

export const checkLines = ({ checks }: Pick<Job, "checks">): string[] =>
  checks.map((check) => `${oneLine(check.name)}: ${checkEnd(check)}`);
