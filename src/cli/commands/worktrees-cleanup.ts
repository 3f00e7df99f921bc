import { resolve } from "node:path";
import type { Answer } from "../../contract/operation.ts";
import type { Operations } from "../../contract/operations.ts";
import { views } from "../../view/views.ts";
import { connect } from "../connect.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { resolveJobId } from "../job-id.ts";
import type { Asked } from "../operation-commands.ts";
import { note, printAnswer } from "../print.ts";
import { fromHere } from "./input.ts";

type Input = { paths?: string; max_age_hours?: number; force?: boolean; dry_run?: boolean };

/** `svc worktrees cleanup`. Ends with 1 when a named worktree stays. */
export const worktreesCleanup = async ({ input, flags }: Asked): Promise<ExitCode> => {
  const { paths: words, max_age_hours = 0, ...rest } = input as Input;
  const named = words === undefined ? [] : words.split(",").map(asked);
  if (named.length === 0 && max_age_hours === 0) {
    throw usageError("Say which: paths or ids of worktrees, or --max-age-hours, or both");
  }
  const { client } = connect();
  const names = await Promise.all(named.map((word) => resolveJobId(client, word)));
  const paths = names.join(",");
  if (encodeURIComponent(paths).length > maxUrlLength) {
    throw usageError(`These are too many at once (${names.length}): name fewer, or use --max-age-hours`);
  }
  const body = await client.cleanup_worktrees({ paths, max_age_hours, ...rest });
  const isJson = flags["json"] === true;
  printAnswer(body, isJson, views.cleanup_worktrees);
  if (!isJson && rest.dry_run !== true && body.results.some((result) => result.salvage_ref !== null)) {
    note("To get saved work back: svc worktrees show ID, or svc job ID if it was a job's own worktree");
  }
  return hasStayed(body, names) ? exitCode.failure : exitCode.ok;
};

/** Length of a URL that the service accepts, well below its 16 KiB for all headers. */
const maxUrlLength = 12_000;

const asked = (argument: string): string => {
  const name = argument.trim();
  if (name === "")
    throw usageError(
      "A worktree's name is empty: give its path or its id, and an id where the path has a comma",
    );
  // In the form of the results.
  return name.startsWith("/") ? resolve(name) : fromHere(name);
};

/** Whether a named worktree stays. An unknown one can only have been named. */
const hasStayed = ({ results }: Answer<Operations["cleanup_worktrees"]>, names: string[]): boolean =>
  results.some(
    ({ success, path, worktree_id: id }) =>
      !success &&
      (id === null || names.includes(path) || names.some((name) => id.startsWith(digitsOf(name)))),
  );

/** Of an id, or of a branch that has its beginning in its name. */
const digitsOf = (name: string): string => name.toLowerCase().replace(/^(service\/)?(wt-)?/, "");
