import type { Client } from "../../client/client.ts";
import { bytes } from "./bytes.ts";
import { aligned, rightAligned } from "./columns.ts";
import type { Layout } from "./job-facts.ts";
import { oneLine } from "./sanitise.ts";
import { wrap } from "./width.ts";

export type Cleanup = Awaited<ReturnType<Client["cleanup_worktrees"]>>;
type Result = Cleanup["results"][number];

/** What became of each worktree, what came of its jobs and its work, or why it was left, and what it comes to. */
export const cleanupReport = (
  { results, removed, dry_run: dry }: Cleanup,
  { paint, columns = 250 }: Layout,
): string => {
  const sizes = rightAligned(results.map((result) => (isGone(result) ? "" : bytes(result.size_bytes))));
  const lines = aligned(
    results.map((result, index) => [outcome(result, dry), sizes[index] ?? "", oneLine(result.path)]),
  );
  const rows = results.flatMap((result, index) => {
    const [first = ""] = [lines[index]];
    const painted = result.success ? first : first.replace("left", () => paint("yellow", "left"));
    return [painted, ...remarks(result, dry).flatMap((text) => indented(text, columns))];
  });
  return [...rows, paint("dim", total({ results, removed, dry_run: dry }))].join("\n");
};

/** Not of this call's doing. */
const isGone = ({ success, removed }: Result): boolean => success && !removed;

const outcome = (result: Result, dry: boolean): string => {
  if (!result.success) return "left";
  if (isGone(result)) return "was removed before";
  return dry ? "would be removed" : "removed";
};

const remarks = (result: Result, dry: boolean): string[] => {
  const { error, cancelled_jobs: jobs, salvage_ref: ref } = result;
  return [
    ...(error === null ? [] : [oneLine(error)]),
    ...(jobs.length === 0 ? [] : [cancelled(jobs, dry)]),
    ...(ref === null ? [] : [`${isGone(result) ? savedBefore : saved(dry)} ${oneLine(ref)}`]),
  ];
};

const cancelled = (jobs: string[], dry: boolean): string => {
  const [noun, did] = jobs.length === 1 ? ["job", "was"] : ["jobs", "were"];
  return `${noun} ${jobs.map(oneLine).join(", ")} ${dry ? "would be" : did} cancelled`;
};

const savedBefore = "what was not pushed then is under";
const saved = (dry: boolean): string => `its unpushed work ${dry ? "would be" : "is"} saved as`;

const indent = "    ";

const indented = (text: string, columns: number): string[] =>
  wrap(text, Math.max(20, columns - indent.length)).map((line) => indent + line);

const total = ({ results, removed, dry_run: dry }: Omit<Cleanup, "success">): string => {
  const freed = results.reduce((sum, result) => sum + (result.removed ? (result.size_bytes ?? 0) : 0), 0);
  const left = results.filter(({ success }) => !success).length;
  const what = dry
    ? `${removed} would be removed, ${bytes(freed)} freed`
    : `${removed} removed, ${bytes(freed)} freed`;
  return left === 0 ? what : `${what}; ${left} left in place`;
};
