import { oneLine } from "./sanitise.ts";

type SavedWork = {
  ref: string;
  /** Git directory that has the ref; null: unknown. */
  gitDir: string | null;
  /** Id of the job or worktree whose work it is. */
  id: string;
};

/** The ref that holds unpushed work, and the git commands to get it back. */
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
 * All that the remote's branches do not have, but for branches of jobs: they hold the work of a job that failed after
 * its push. Saved work may be a merge (of where the agent stood, its branch and what was saved earlier), of which git
 * shows nothing without `--diff-merges`.
 */
const beyondBase = "--not --exclude='origin/service/*' --remotes";

/** The text as one word of a shell command. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
