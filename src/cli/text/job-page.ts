import type { Job } from "../../contract/job.ts";
import { effortFacts, factLines, optional, outcomeFacts, profile, resultFacts } from "./job-facts.ts";
import type { Fact, Layout } from "./job-facts.ts";
import { sanitise } from "./sanitise.ts";
import { stageTimes } from "./stage-times.ts";

type Options = Layout & { clone: string | null; now: number };

/** Everything about a job, as `svc job` shows it. */
export const jobPage = (job: Job, { paint, columns, clone, now }: Options): string => {
  const facts: Fact[] = [
    ["ID", job.id],
    ...outcomeFacts(job, paint),
    ["Profile", profile(job)],
    ["Task", shorten(sanitise(job.task).trim(), outputLimit)],
    ["Repository", optional(job.repo_url)],
    ["Base", job.repo_url === "" ? null : optional(job.base_ref)],
    ["Exit code", job.exit_code === null ? null : String(job.exit_code)],
    ...resultFacts(job, clone),
    ...effortFacts(job),
    ["Session", optional(job.session_id)],
    ["Attempt", job.attempt > 1 ? String(job.attempt) : null],
    ["Instance", optional(job.pod_name)],
    ["Created", job.created_at],
    ["Started", job.started_at],
    ["Ended", job.ended_at],
  ];
  const sections = [factLines(facts, { paint, columns })];
  const times = stageTimes(job, now);
  if (times.length > 0) sections.push([paint("bold", "Where the time went"), ...times]);
  if (job.output !== null) {
    const output = shorten(sanitise(job.output).trimEnd(), outputLimit);
    sections.push([paint("bold", "Output"), output]);
  }
  return sections.map((lines) => lines.join("\n")).join("\n\n");
};

/** Characters of task and output that are shown; `--json` has them whole. */
const outputLimit = 2000;

const shorten = (text: string, limit: number): string => {
  if (text.length <= limit) return text;
  // A character outside the basic plane is not cut in half.
  const head = text.slice(0, limit).replace(/[\uD800-\uDBFF]$/, "");
  return `${head}\n… ${text.length - head.length} more characters: svc job --json has them`;
};
