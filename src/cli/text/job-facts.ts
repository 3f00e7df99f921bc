import type { Job } from "../../contract/job.ts";
import { adviceFor } from "./advice.ts";
import { aligned } from "./columns.ts";
import { duration } from "./duration.ts";
import type { Paint } from "./paint.ts";
import { oneLine, sanitise } from "./sanitise.ts";
import { ownGitDirectory, savedWork } from "./saved-work.ts";
import { paintStatus } from "./status.ts";
import { wrap } from "./width.ts";

/** A labelled value; one without a value is not shown. Prose is wrapped where there is a width; paths and commands never. */
export type Fact = [label: string, value: string | null, prose?: "prose"];

export type Layout = { paint: Paint; columns?: number | undefined };

/** Label and value in two columns; further lines of a value stand under its first. */
export const factLines = (facts: Fact[], { paint, columns = Infinity }: Layout): string[] => {
  const shown = facts.filter(
    (fact): fact is [string, string, "prose"?] => fact[1] !== null && fact[1] !== "",
  );
  const labelled = Math.max(0, ...shown.map(([label]) => label.length)) + 2;
  const room = Math.max(20, columns - labelled);
  const rows = shown.flatMap(([label, value, prose]) => {
    const lines = value.split("\n");
    const [first = "", ...rest] = prose === undefined ? lines : lines.flatMap((line) => wrap(line, room));
    return [[label, first], ...rest.map((line) => ["", line])];
  });
  const labels = aligned(rows.map(([label = ""]) => [label, "|"]));
  return rows.map(([, value = ""], index) => {
    const label = labels[index]?.replace(/\|$/, "") ?? "";
    return `${paint("dim", label)}${value}`.trimEnd();
  });
};

/** How it went, and what to do when it did not go well. */
export const outcomeFacts = (job: Job, paint: Paint): Fact[] => [
  [
    "Status",
    paintStatus(job.status, paint) + (job.failure_reason === null ? "" : ` (${job.failure_reason})`),
  ],
  ["Error", job.error === null ? null : sanitise(job.error).trimEnd(), "prose"],
  ["What to do", adviceFor(job), "prose"],
];

/** What came of it: where the work is. `clone` is the cached clone, where it is known. */
export const resultFacts = (job: Job, clone: string | null): Fact[] => [
  ["Pull request", optional(job.pr_url)],
  ["Branch", branch(job)],
  ["Commit", optional(job.commit_sha)],
  ["Changes", changes(job)],
  ["Worktree", optional(job.worktree_path)],
  ["Unfinished work", salvage(job, clone)],
  warningsFact(job.warnings),
];

export const warningsFact = (warnings: readonly string[]): Fact => [
  "Warnings",
  warnings.map((warning) => `- ${oneLine(warning)}`).join("\n"),
  "prose",
];

export const effortFacts = (job: Job): Fact[] => [
  ["Model", optional(job.model)],
  ["Turns", job.num_turns === null ? null : String(job.num_turns)],
  ["Tokens", tokens(job)],
  ["Cost", job.cost_usd === null ? null : cost(job.cost_usd)],
  ["Duration", job.duration_ms === null ? null : duration(job.duration_ms)],
];

/** Four digits for the cents of a small run, two for a large one. */
export const cost = (usd: number): string => `$${usd.toFixed(usd < 1 ? 4 : 2)}`;

export const optional = (value: string | null): string | null => (value === null ? null : oneLine(value));

/** Null: the job was accepted by an older version. */
export const profile = ({
  profile: name,
  profile_rule: rule,
}: Pick<Job, "profile" | "profile_rule">): string => oneLine(rule === null ? name : `${name} (${rule})`);

/** A branch that this job has not pushed is on this machine only, which its name alone does not tell. */
const branch = ({ branch: name, stages, ended_at: ended }: Job): string | null => {
  if (name === null) return null;
  const pushed = ended === null || stages.some(({ stage }) => stage === "pushed");
  return oneLine(name) + (pushed ? "" : "  (not pushed by this job)");
};

const changes = ({ diff_stat: stat }: Job): string | null => {
  if (stat === null) return null;
  if (stat.files === 0) return "none";
  return `${stat.files} ${stat.files === 1 ? "file" : "files"}, +${stat.insertions} −${stat.deletions}`;
};

const tokens = ({ usage }: Job): string | null => {
  if (usage === null) return null;
  const cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
  return `${usage.input_tokens} in, ${usage.output_tokens} out, ${cached} cached`;
};

const salvage = (job: Job, clone: string | null): string | null => {
  if (job.salvage_ref === null) return null;
  return savedWork({ ref: job.salvage_ref, gitDir: clone ?? ownGitDirectory(job), id: job.id });
};
