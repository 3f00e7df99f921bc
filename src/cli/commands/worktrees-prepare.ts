import { setTimeout as delay } from "node:timers/promises";
import { ClientError } from "../../client/client-error.ts";
import type { Client } from "../../client/client.ts";
import type { Worktree } from "../../contract/worktree.ts";
import { connect } from "../connect.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { report } from "../report.ts";
import { catchInterruption } from "../interruption.ts";
import { isOutage, waitOutOutage } from "../live/follow.ts";
import { layoutOf, note, print, printJson } from "../print.ts";
import { flagWords, oneLine, sanitise, shellWord } from "../../view/sanitise.ts";
import { repositoryOf } from "./input.ts";
import { preparedPage } from "../../view/worktrees.ts";
import type { Asked } from "../operation-commands.ts";

/**
 * `svc worktrees prepare`: waits until the worktree is ready, or has failed. Without a terminal it prints only the id,
 * for a shell variable.
 */
export const worktreesPrepare = async ({ input: asked, flags }: Asked): Promise<ExitCode> => {
  const { repo_url: url, base_ref } = asked as { repo_url: string; base_ref?: string };
  const json = flags["json"] === true;
  if (url.trim() === "") throw usageError("The URL is empty: give that of a git repository, or a path");
  const { client, gitHost } = connect();
  using interruption = catchInterruption();
  const { signal } = interruption;
  const input = { repo_url: repositoryOf(url, gitHost), ...(base_ref !== undefined && { base_ref }) };
  let begun: Worktree | null = null;
  try {
    const first = await client.prepare_worktree(input, { signal });
    begun = first.worktree;
    const worktree = await whenPrepared(client, begun, signal);
    if (json) printJson({ ...first, worktree });
    return printOutcome(worktree, json);
  } catch (error) {
    if (!signal.aborted) {
      const exit = report(error, { json });
      const left = await failedWorktree(client, error);
      if (left !== null) note(removeIt(left));
      return exit;
    }
    const look = begun === null ? "svc worktrees list" : `svc worktrees show ${oneLine(begun.worktree_id)}`;
    note(`\nNo longer waiting; the preparation continues.\nLook at it:  ${look}`);
    return interruption.exit();
  }
};

/** Interval of the checks, ms; a first clone takes minutes. */
const intervalMs = 1000;

const whenPrepared = async (client: Client, begun: Worktree, signal: AbortSignal): Promise<Worktree> => {
  const { worktree_id: id } = begun;
  if (begun.status === "preparing") note(`Still preparing ${oneLine(id)}; a first clone can take minutes`);
  let worktree = begun;
  const look = async (): Promise<void> => {
    ({ worktree } = await client.get_worktree({ worktree_id: id }, { signal }));
  };
  while (worktree.status === "preparing") {
    await delay(intervalMs, undefined, { signal });
    try {
      await look();
    } catch (error) {
      signal.throwIfAborted();
      if (!isOutage(error)) throw error;
      const later = `Ask later: svc worktrees show ${oneLine(id)}`;
      await waitOutOutage(error, { probe: look, signal, onNote: note, later });
    }
  }
  return worktree;
};

const printOutcome = (worktree: Worktree, json: boolean): ExitCode => {
  const { worktree_id: id, status, error } = worktree;
  if (status === "failed" || status === "removed") {
    note(`svc: ${flagWords(sanitise(error ?? `The worktree ${id} is ${status}`))}`);
    if (status === "failed") note(removeIt(worktree));
    return exitCode.failure;
  }
  if (json) return exitCode.ok;
  if (process.stdout.isTTY) print(preparedPage(worktree, layoutOf(process.stdout)));
  else {
    print(oneLine(id));
    if (process.stderr.isTTY) note(preparedPage(worktree, layoutOf(process.stderr)));
  }
  return exitCode.ok;
};

/** The worktree of a preparation that failed at once: the error does not name it, but both give the same reason. */
const failedWorktree = async (client: Client, error: unknown): Promise<Worktree | null> => {
  if (!(error instanceof ClientError) || !preparationFailures.has(error.code)) return null;
  try {
    const { worktrees } = await client.list_worktrees({}, { signal: AbortSignal.timeout(5000) });
    return worktrees.findLast((each) => each.status === "failed" && each.error === error.message) ?? null;
  } catch {
    // The user has the reason; this is an addition.
    return null;
  }
};

/** Codes of a preparation that the service accepted and that failed then. */
const preparationFailures: ReadonlySet<string> = new Set([
  "clone_failed",
  "worktree_failed",
  "repo_unavailable",
  "internal",
]);

const removeIt = ({ worktree_id: id }: Worktree): string =>
  `The list of worktrees shows it as failed; remove it:  svc worktrees cleanup ${shellWord(oneLine(id))}`;
