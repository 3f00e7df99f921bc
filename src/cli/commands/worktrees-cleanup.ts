import { resolve } from "node:path";
import type { Client } from "../../client/client.ts";
import { connect } from "../connect.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { resolveJobId } from "../job-id.ts";
import { note, printAnswer } from "../print.ts";
import type { Layout } from "../../view/paint.ts";
import { aligned, rightAligned, wrap, bytes, counted } from "../../view/columns.ts";
import { flagWords, oneLine } from "../../view/sanitise.ts";
import { fromHere } from "./input.ts";

export type CleanupOptions = { maxAgeHours?: number; force?: boolean; dryRun?: boolean; json?: boolean };

export type Cleanup = Awaited<ReturnType<Client["cleanup_worktrees"]>>;
type Result = Cleanup["results"][number];

/** `svc worktrees cleanup`. Ends with 1 when a named worktree stays. */
export const worktreesCleanup = async (named: string[], options: CleanupOptions): Promise<ExitCode> => {
  const { maxAgeHours = 0, force = false, dryRun = false, json = false } = options;
  if (named.length === 0 && maxAgeHours === 0) {
    throw usageError("Say which: paths or ids of worktrees, or --max-age-hours, or both");
  }
  const { client } = connect();
  const names = await Promise.all(named.map((word) => resolveJobId(client, asked(word))));
  const paths = names.join(",");
  if (encodeURIComponent(paths).length > maxUrlLength) {
    throw usageError(`These are too many at once (${names.length}): name fewer, or use --max-age-hours`);
  }
  const body = await client.cleanup_worktrees({ paths, max_age_hours: maxAgeHours, force, dry_run: dryRun });
  printAnswer(body, json, (_, layout) =>
    body.results.length === 0
      ? `No worktree is older than ${counted(maxAgeHours, "hour")}`
      : cleanupReport(body, layout),
  );
  if (!json && !dryRun && body.results.some((result) => result.salvage_ref !== null)) {
    note("To get saved work back: svc worktrees show ID, or svc job ID if it was a job's own worktree");
  }
  return hasStayed(body, names) ? exitCode.failure : exitCode.ok;
};

/** Length of a URL that the service accepts, well below its 16 KiB for all headers. */
const maxUrlLength = 12_000;

const asked = (argument: string): string => {
  const name = argument.trim();
  if (name === "") throw usageError("A worktree's name is empty: give its path or its id");
  if (name.includes(","))
    throw usageError(`${name}: svc cannot send a path with a comma, give the worktree's id`);
  // In the form of the results.
  return name.startsWith("/") ? resolve(name) : fromHere(name);
};

/** Whether a named worktree stays. An unknown one can only have been named. */
const hasStayed = ({ results }: Cleanup, names: string[]): boolean =>
  results.some(
    ({ success, path, worktree_id: id }) =>
      !success &&
      (id === null || names.includes(path) || names.some((name) => id.startsWith(digitsOf(name)))),
  );

/** Of an id, or of a branch that has its beginning in its name. */
const digitsOf = (name: string): string => name.toLowerCase().replace(/^(service\/)?(wt-)?/, "");

/** Each worktree with its jobs and its work, or with the reason why it stays, then the totals. */
export const cleanupReport = (
  { results, removed, dry_run: dry }: Cleanup,
  { paint, columns = 250 }: Layout,
): string => {
  const sizes = rightAligned(results.map((result) => (wasRemoved(result) ? "" : bytes(result.size_bytes))));
  const lines = aligned(
    results.map((result, index) => [
      result.success ? outcome(result, dry) : paint("yellow", "left"),
      sizes[index] ?? "",
      oneLine(result.path),
    ]),
  );
  const rows = results.flatMap((result, index) => [
    lines[index],
    ...remarks(result, dry).flatMap((text) =>
      wrap(text, Math.max(20, columns - indent.length)).map((line) => indent + line),
    ),
  ]);
  const freed = results.reduce((sum, result) => sum + (result.removed ? (result.size_bytes ?? 0) : 0), 0);
  const left = results.filter(({ success }) => !success).length;
  const total = `${removed} ${dry ? "would be removed" : "removed"}, ${bytes(freed)} freed`;
  return [...rows, paint("dim", total + (left === 0 ? "" : `; ${left} left in place`))].join("\n");
};

const indent = "    ";

/** An earlier call removed it. */
const wasRemoved = ({ success, removed }: Result): boolean => success && !removed;

const outcome = (result: Result, dry: boolean): string => {
  if (wasRemoved(result)) return "was removed before";
  return dry ? "would be removed" : "removed";
};

const remarks = (result: Result, dry: boolean): string[] => {
  const { error, cancelled_jobs: jobs, salvage_ref: ref } = result;
  const saved = wasRemoved(result)
    ? "what was not pushed then is under"
    : `its unpushed work ${dry ? "would be" : "is"} saved as`;
  return [
    ...(error === null ? [] : [flagWords(oneLine(error))]),
    ...(jobs.length === 0 ? [] : [cancelled(jobs, dry)]),
    ...(ref === null ? [] : [`${saved} ${oneLine(ref)}`]),
  ];
};

const cancelled = (jobs: string[], dry: boolean): string => {
  const [noun, did] = jobs.length === 1 ? ["job", "was"] : ["jobs", "were"];
  return `${noun} ${jobs.map(oneLine).join(", ")} ${dry ? "would be" : did} cancelled`;
};
