import { GitError } from "../lib/git.ts";
import { capture, type Captured } from "./capture.ts";
import type { GitContext } from "./git-context.ts";
import { NotCaptured, type Worktree } from "./repos.ts";

type Target = { worktree: Worktree; signal: AbortSignal };

/** See the port. */
export const unsavable = async (context: GitContext, target: Target): Promise<string[]> => {
  const state = await captureOrReason(context, target);
  return typeof state === "string" ? [state] : state.kept;
};

/** As `capture`; the reason when git cannot capture the directory. */
export const captureOrReason = (context: GitContext, target: Target): Promise<Captured | string> =>
  capture(context, target).catch((error: unknown) => {
    if (error instanceof NotCaptured) return error.message;
    if (error instanceof GitError && !outOfRoom.test(error.said))
      return `git cannot take what is in it (${error.message.replaceAll(temporaryIndex, "index").slice(0, 300)})`;
    throw error;
  });

/** Failures of the disk are temporary: they are no reason to give the work up. */
const outOfRoom = /No space left|quota exceeded|Read-only file system|Input\/output error/i;

/** Its random name must not make the same reason look new. */
const temporaryIndex = /service-[0-9a-f-]{36}\.index/g;
