import { resolve } from "node:path";
import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { usageError } from "../failure.ts";
import { note, print, printJson, terminalColumns } from "../print.ts";
import { cleanupReport, type Cleanup } from "../text/cleanup-report.ts";
import { painter } from "../text/paint.ts";
import { fromHere } from "./from-here.ts";

export type CleanupOptions = { maxAgeHours?: number; force?: boolean; dryRun?: boolean; json?: boolean };

/** `svc worktrees cleanup`. Ends with 1 when one that was named stays. */
export const worktreesCleanup = async (named: string[], options: CleanupOptions): Promise<ExitCode> => {
  const { maxAgeHours = 0, force = false, dryRun = false, json = false } = options;
  if (named.length === 0 && maxAgeHours === 0) {
    throw usageError("Say which: paths or ids of worktrees, or --max-age-hours, or both");
  }
  const names = named.map(asked);
  const paths = names.join(",");
  if (encodeURIComponent(paths).length > longest) {
    throw usageError(`These are too many at once (${names.length}): name fewer, or use --max-age-hours`);
  }
  const { client } = connect();
  const body = await client.cleanup_worktrees({ paths, max_age_hours: maxAgeHours, force, dry_run: dryRun });
  if (json) printJson(body);
  else if (body.results.length === 0)
    print(`No worktree is older than ${maxAgeHours} ${maxAgeHours === 1 ? "hour" : "hours"}`);
  else {
    print(cleanupReport(body, { paint: painter(process.stdout), columns: terminalColumns() }));
    if (!dryRun && body.results.some((result) => result.salvage_ref !== null)) {
      note("To get saved work back: svc worktrees show ID, or svc job ID if it was a job's own worktree");
    }
  }
  return stayed(body, names).length > 0 ? exitCode.failure : exitCode.ok;
};

/** What the service takes in an address, well below its 16 KiB for all headers. */
const longest = 12_000;

const asked = (argument: string): string => {
  const name = argument.trim();
  if (name === "") throw usageError("A worktree's name is empty: give its path or its id");
  if (name.includes(","))
    throw usageError(`${name}: a path with a comma cannot be given, give the worktree's id`);
  // As results name it.
  return name.startsWith("/") ? resolve(name) : fromHere(name);
};

/** Those that were named and are left in place. What nobody knows can only have been named. */
const stayed = ({ results }: Cleanup, names: string[]): Cleanup["results"] =>
  results.filter(
    ({ success, path, worktree_id: id }) =>
      !success && (id === null || names.includes(id) || names.includes(path)),
  );
