import { realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { RepoSettings } from "./room.ts";

/**
 * The two roots without links on the way to them: git names a worktree by its real path, and would be taken for tied to
 * another directory. They need not be there yet.
 */
export const withRealRoots = <Settings extends Pick<RepoSettings, "reposRoot" | "worktreeRoot">>(
  settings: Settings,
): Settings => ({
  ...settings,
  reposRoot: realPath(settings.reposRoot),
  worktreeRoot: realPath(settings.worktreeRoot),
});

const realPath = (path: string): string => {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realPath(parent), basename(path));
  }
};
