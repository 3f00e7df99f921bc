import { setTimeout as delay } from "node:timers/promises";
import { ClientError } from "../../client/client-error.ts";
import type { Client } from "../../client/client.ts";
import type { Worktree } from "../../contract/worktree.ts";
import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { catchInterruption } from "../interruption.ts";
import { isOutage, sitOut } from "../live/outage.ts";
import { note, print, printJson, terminalColumns } from "../print.ts";
import { report } from "../report.ts";
import { painter } from "../text/paint.ts";
import { oneLine, sanitise } from "../text/sanitise.ts";
import { shellWord } from "../text/saved-work.ts";
import { preparedPage } from "../text/worktree-page.ts";
import { fromHere } from "./from-here.ts";

export type PrepareOptions = { baseRef?: string; json?: boolean };

/**
 * `svc worktrees prepare`: waits until the worktree is ready, or cannot be made. Without a terminal its id is all that is
 * printed, so that it can be taken into a variable.
 */
export const worktreesPrepare = async (
  url: string,
  { baseRef = "", json = false }: PrepareOptions,
): Promise<ExitCode> => {
  const { client } = connect();
  using interruption = catchInterruption();
  const { signal } = interruption;
  const input = { repo_url: fromHere(url), base_ref: baseRef };
  let begun: Worktree | null = null;
  try {
    const first = await client.prepare_worktree(input, { signal });
    begun = first.worktree;
    const worktree = await whenPrepared(client, begun, signal);
    if (json) printJson({ ...first, worktree });
    return told(worktree, json);
  } catch (error) {
    if (!signal.aborted) {
      const exit = report(error, { json });
      const left = await leftBehind(client, error);
      if (left !== null) note(removeIt(left));
      return exit;
    }
    const look = begun === null ? "svc worktrees list" : `svc worktrees show ${oneLine(begun.worktree_id)}`;
    note(`\nNo longer waiting; the preparation goes on.\nLook at it:  ${look}`);
    return interruption.exit();
  }
};

/** How often a preparation is looked at, ms; a first clone takes minutes. */
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
      const later = `What became of it tells: svc worktrees show ${oneLine(id)}`;
      await sitOut(error, { probe: look, signal, onNote: note, later });
    }
  }
  return worktree;
};

/** Says what came of it, and how to exit. */
const told = (worktree: Worktree, json: boolean): ExitCode => {
  if (worktree.status === "failed" || worktree.status === "removed") {
    const why = worktree.error ?? `The worktree ${worktree.worktree_id} is ${worktree.status}`;
    note(`svc: ${sanitise(why)}`);
    if (worktree.status === "failed") note(removeIt(worktree));
    return exitCode.failure;
  }
  if (json) return exitCode.ok;
  if (process.stdout.isTTY) {
    print(preparedPage(worktree, { paint: painter(process.stdout), columns: terminalColumns() }));
    return exitCode.ok;
  }
  print(oneLine(worktree.worktree_id));
  if (process.stderr.isTTY) {
    note(preparedPage(worktree, { paint: painter(process.stderr), columns: process.stderr.columns }));
  }
  return exitCode.ok;
};

/** What a preparation that failed at once has left in the list: the refusal does not name it, but both give the same reason. */
const leftBehind = async (client: Client, error: unknown): Promise<Worktree | null> => {
  if (!(error instanceof ClientError) || !begunInVain.has(error.code)) return null;
  try {
    const { worktrees } = await client.list_worktrees({}, { signal: AbortSignal.timeout(5000) });
    return worktrees.findLast((each) => each.status === "failed" && each.error === error.message) ?? null;
  } catch {
    // The reason has been told; this is beside it.
    return null;
  }
};

/** Codes of a preparation that was accepted and then failed. */
const begunInVain: ReadonlySet<string> = new Set([
  "clone_failed",
  "worktree_failed",
  "repo_unavailable",
  "internal",
]);

const removeIt = ({ worktree_id: id }: Worktree): string =>
  `The list of worktrees keeps it as failed; take it away:  svc worktrees cleanup ${shellWord(oneLine(id))}`;
