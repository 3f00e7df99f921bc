import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "../../client/client.ts";
import type { Worktree } from "../../contract/worktree.ts";
import { flagWords, oneLine, sanitise, shellWord } from "../../view/sanitise.ts";
import { preparedPage } from "../../view/worktrees.ts";
import { connect } from "../connect.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { isOutage } from "../live/follow.ts";
import type { Asked } from "../operation-commands.ts";
import { layoutOf, note, print, printJson } from "../print.ts";
import { repositoryOf } from "./input.ts";

/** `svc worktrees prepare`: waits until it is ready, or failed. Without a terminal it prints only the id, for a variable. */
export const worktreesPrepare = async ({ input: asked, flags }: Asked): Promise<ExitCode> => {
  const { repo_url: url, base_ref } = asked as { repo_url: string; base_ref?: string };
  if (url.trim() === "") throw usageError("The URL is empty: give that of a git repository, or a path");
  const { client, gitHost } = connect();
  using interruption = catchInterruption();
  const { signal } = interruption;
  const input = { repo_url: repositoryOf(url, gitHost), ...(base_ref !== undefined && { base_ref }) };
  let look = "svc worktrees list";
  try {
    const begun = await client.prepare_worktree(input, { signal });
    look = `svc worktrees show ${oneLine(begun.worktree_id)}`;
    const worktree = await whenPrepared(client, begun.worktree, signal);
    if (flags["json"] === true) printJson({ ...begun, worktree });
    return printOutcome(worktree, flags["json"] === true);
  } catch (error) {
    if (!signal.aborted) throw error;
    note(`\nNo longer waiting; the preparation continues.\nLook at it:  ${look}`);
    return interruption.exit();
  }
};

/** Interval of the checks, ms; a first clone takes minutes. */
const intervalMs = 1000;

const whenPrepared = async (client: Client, begun: Worktree, signal: AbortSignal): Promise<Worktree> => {
  const { worktree_id } = begun;
  if (begun.status === "preparing")
    note(`Still preparing ${oneLine(worktree_id)}; a first clone can take minutes`);
  let worktree = begun;
  while (worktree.status === "preparing") {
    await delay(intervalMs, undefined, { signal });
    try {
      ({ worktree } = await client.get_worktree({ worktree_id }, { signal }));
    } catch (error) {
      // A service that is started again goes on with it.
      if (signal.aborted || !isOutage(error)) throw error;
      note(`The service is unreachable (${oneLine(error.message)}); trying again until you press Ctrl-C`);
    }
  }
  return worktree;
};

const printOutcome = (worktree: Worktree, json: boolean): ExitCode => {
  const { worktree_id: id, status, error } = worktree;
  if (status === "failed" || status === "removed") {
    note(`svc: ${flagWords(sanitise(error ?? `The worktree ${id} is ${status}`))}`);
    if (status === "failed") note(`Remove it:  svc worktrees cleanup ${shellWord(oneLine(id))}`);
    return exitCode.failure;
  }
  if (json) return exitCode.ok;
  if (process.stdout.isTTY) print(preparedPage(worktree, layoutOf(process.stdout)));
  else print(oneLine(id));
  return exitCode.ok;
};
