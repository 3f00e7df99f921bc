import { constants } from "node:fs";
import { type FileHandle, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import type { Log } from "../lib/log.ts";
import { transcriptRoot } from "../profiles/materialise.ts";
import { startRepeating } from "./retention.ts";

type Roots = Pick<
  Settings,
  "jobsDir" | "reposRoot" | "worktreeRoot" | "agentModeWorkspaces" | "sharedFsRoot"
>;

/** `directory`: the instance's own. */
type Options = { directory: string; home: string; log: Pick<Log, "warn">; intervalMs?: number };

/**
 * Keeps the modes of the service's directories as they were first seen: whoever has the rights of the service's user can
 * change them, also an agent. The directories stay open, so that one that may not be entered is reached. Until the next look
 * such a one stops the service. `problem`: the last change, a sentence; null: there was none.
 */
export const keepModes = async (settings: Roots, { log, intervalMs = 5000, ...places }: Options) => {
  const seen = new Map<string, { handle: FileHandle; mode: number }>();
  const directories = await directoriesOf(settings, places);
  let last: string | null = null;

  const look = async (path: string): Promise<void> => {
    const known = seen.get(path);
    const handle = known?.handle ?? (await open(path, constants.O_RDONLY | constants.O_DIRECTORY));
    const current = (await handle.stat()).mode & 0o7777;
    const { mode } = known ?? { mode: current };
    seen.set(path, { handle, mode });
    if (current === mode) return;
    const failure = await handle.chmod(mode).catch(String);
    const end = failure === undefined ? "was put back" : `could not be put back (${failure}): do it`;
    const change = `The mode of ${path} was changed from ${mode.toString(8)} to ${current.toString(8)}, and ${end}. An agent under Landlock or without a sandbox, or a program of the service's user, has done it`;
    if (failure === undefined || change !== last) log.warn(change);
    last = change;
  };
  // One that is missing is looked for again.
  const round = async () => void (await Promise.allSettled([...directories].map(look)));

  await round();
  const rounds = startRepeating(round, intervalMs);
  return {
    problem: (): string | null => last,
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await rounds.stop();
      for (const { handle } of seen.values()) await handle.close();
    },
  };
};

/** Roots of the service's files, and what is directly in those whose content is the service's alone. */
const directoriesOf = async (settings: Roots, { directory, home }: Pick<Options, "directory" | "home">) => {
  const { jobsDir, reposRoot, worktreeRoot, agentModeWorkspaces, sharedFsRoot } = settings;
  const root = transcriptRoot({ home, sharedFsRoot });
  const state = [root, jobsDir, directory];
  const inside = await Promise.all(state.map(directoriesIn));
  const later = ["jobs-config", "projects"].map((name) => join(root, name));
  return new Set([...state, reposRoot, worktreeRoot, agentModeWorkspaces, ...later, ...inside.flat()]);
};

const directoriesIn = async (path: string): Promise<string[]> =>
  (await readdir(path, { withFileTypes: true }).catch(() => []))
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(path, entry.name));
