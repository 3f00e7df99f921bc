import { oneLine } from "./sanitise.ts";

type SavedWork = {
  ref: string;
  /** Git directory or worktree that knows the ref; null: it is not known where. */
  place: string | null;
  /** Id of the job or worktree whose work it is. */
  id: string;
};

/** The ref that holds unpushed work, and the git commands to get it back. */
export const savedWork = ({ ref: given, place, id }: SavedWork): string => {
  const ref = oneLine(given);
  if (place === null) return ref;
  const from = shellWord(oneLine(place));
  return [
    ref,
    `look at it:  git -C ${from} log --stat -p -1 ${ref}`,
    `fetch it:    git fetch ${from} ${ref}:refs/heads/salvaged-${id.slice(0, 8)}`,
  ].join("\n");
};

/** The text as one word of a shell command. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
