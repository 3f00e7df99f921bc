import { oneLine, shellWord } from "./sanitise.ts";

type SavedWork = {
  ref: string;
  /** Git directory that has the ref; null: unknown. */
  gitDir: string | null;
  /** Id of the worktree that the work belongs to. */
  id: string;
};

/** The salvage ref of a worktree, and the git commands to get the work back. */
export const savedWork = ({ ref: given, gitDir, id }: SavedWork): string => {
  const ref = oneLine(given);
  if (gitDir === null) return ref;
  const from = shellWord(oneLine(gitDir));
  return [
    ref,
    `look at it:  git --git-dir ${from} log -p --stat --diff-merges=1 ${ref} ${beyondBase}`,
    `fetch it:    git fetch ${from} ${ref}:refs/heads/salvaged-${id.slice(0, 8)}`,
  ].join("\n");
};

/**
 * Excludes what the remote had when it was saved; in a cached clone of an earlier version the remote's branches, but not
 * those of jobs: they contain the work of a job that failed after its push. Saved work may be a merge (of the agent's HEAD,
 * its branch and earlier saves), of which git shows nothing without `--diff-merges`.
 */
const beyondBase = "--not --glob=bases --exclude='origin/service/*' --remotes";
