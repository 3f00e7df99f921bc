import { ProfileError } from "./profile.ts";

/** Days; the CLI otherwise deletes transcripts after 30, and a job's record and its session may be kept for longer. */
const keepTranscripts = 36_500;

/**
 * The settings the CLI gets by `--settings`, which win over the profile's own: transcripts are kept, and with `worktree` the
 * hook that answers the CLI's wish for a worktree with the one that the service has made. Without it the CLI would
 * make a second one inside the first.
 */
export const serviceSettings = (worktreePath: string | null): Record<string, unknown> => {
  if (worktreePath === null) return { cleanupPeriodDays: keepTranscripts };
  const command = { type: "command", command: `printf '%s\\n' ${shellQuote(worktreePath)}` };
  return {
    cleanupPeriodDays: keepTranscripts,
    disableAllHooks: false,
    hooks: { WorktreeCreate: [{ hooks: [command] }] },
  };
};

/** The CLI reads the path as a line. */
const shellQuote = (path: string): string => {
  if (/[\0\r\n]/.test(path)) {
    throw new ProfileError(
      "profile_invalid",
      `The worktree's path ${JSON.stringify(path)} holds a line break`,
    );
  }
  return `'${path.replaceAll("'", `'\\''`)}'`;
};
