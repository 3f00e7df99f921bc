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

/**
 * Keeps the modes of the service's directories as they were when they were first seen, for most at the start. Whoever has the
 * rights of the service's user can change them, and Landlock cannot keep an agent from it. The directories stay open, so that
 * one that may not be entered is reached without its path. `problem`: the last change, a sentence; null: there was none.
 */
export const keepModes = async ({
  settings,
  home,
  log,
  intervalMs = 5000,
}: {
  settings: Roots;
  home: string;
  log: Pick<Log, "warn">;
  /** Between two looks. Until the next one a directory that nobody may enter stops the service. */
  intervalMs?: number;
}) => {
  const seen = new Map<string, { handle: FileHandle; mode: number }>();
  const directories = await directoriesOf(settings, home);
  let last: string | null = null;

  const look = async (path: string): Promise<void> => {
    const known = seen.get(path);
    const handle = known?.handle ?? (await open(path, constants.O_RDONLY | constants.O_DIRECTORY));
    const current = (await handle.stat()).mode & 0o7777;
    const { mode } = known ?? { mode: current };
    seen.set(path, { handle, mode });
    if (current === mode) return;
    const failure = await handle.chmod(mode).then(
      () => null,
      (error: unknown) => String(error),
    );
    const end = failure === null ? "and was put back" : `and could not be put back (${failure}): do it`;
    const change = `The mode of ${path} was changed from ${octal(mode)} to ${octal(current)}, ${end}. An agent under Landlock or without a sandbox, or a program of the service's user, has done it`;
    if (failure === null || change !== last) log.warn(change);
    last = change;
  };
  // One that is missing is looked for again.
  const round = async (): Promise<void> =>
    void (await Promise.allSettled([...directories].map((path) => look(path))));

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
const directoriesOf = async (settings: Roots, home: string): Promise<Set<string>> => {
  const root = transcriptRoot({ home, sharedFsRoot: settings.sharedFsRoot });
  const { jobsDir, reposRoot, worktreeRoot, agentModeWorkspaces } = settings;
  const inside = await Promise.all([root, jobsDir].map(directoriesIn));
  return new Set([
    ...[root, jobsDir, reposRoot, worktreeRoot, agentModeWorkspaces],
    ...["jobs-config", "projects"].map((name) => join(root, name)),
    ...inside.flat(),
  ]);
};

const directoriesIn = async (path: string): Promise<string[]> =>
  (await readdir(path, { withFileTypes: true }).catch(() => []))
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(path, entry.name));

const octal = (mode: number): string => mode.toString(8).padStart(3, "0");
