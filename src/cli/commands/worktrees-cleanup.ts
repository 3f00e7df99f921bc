import { resolve } from "node:path";
import { views } from "../../view/views.ts";
import { connect } from "../connect.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { resolveJobId } from "../job-id.ts";
import type { Asked } from "../operation-commands.ts";
import { note, printAnswer } from "../print.ts";
import { fromHere } from "./input.ts";

type Input = { paths?: string; max_age_hours?: number; force?: boolean; dry_run?: boolean };

/** `svc worktrees cleanup`. Ends with 1 when worktrees were named and one stays. */
export const worktreesCleanup = async ({ input, flags }: Asked): Promise<ExitCode> => {
  const { paths: words, max_age_hours = 0, ...rest } = input as Input;
  const named = words === undefined ? [] : words.split(",").map(asked);
  if (named.length === 0 && max_age_hours === 0) {
    throw usageError("Say which: paths or ids of worktrees, or --max-age-hours, or both");
  }
  const { client } = connect();
  const paths = (await Promise.all(named.map((word) => resolveJobId(client, word)))).join(",");
  const body = await client.cleanup_worktrees({ paths, max_age_hours, ...rest });
  const isJson = flags["json"] === true;
  printAnswer(body, isJson, views.cleanup_worktrees);
  if (!isJson && rest.dry_run !== true && body.results.some((result) => result.salvage_ref !== null)) {
    note("To get saved work back: svc worktrees show ID, or svc job ID if it was a job's own worktree");
  }
  const hasStayed = named.length > 0 && body.results.some(({ success }) => !success);
  return hasStayed ? exitCode.failure : exitCode.ok;
};

const asked = (argument: string): string => {
  const name = argument.trim();
  if (name === "")
    throw usageError(
      "A worktree's name is empty: give its path or its id, and an id where the path has a comma",
    );
  // In the form of the results.
  return name.startsWith("/") ? resolve(name) : fromHere(name);
};
