import { realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Settings } from "../config/variables.ts";
import { git, type GitOptions, type GitOutput } from "../lib/git.ts";
import type { Tokens, TokenSettings } from "./tokens.ts";

export type RepoSettings = TokenSettings &
  Pick<
    Settings,
    | "host"
    | "podName"
    | "reposRoot"
    | "worktreeRoot"
    | "worktreeSizeExclude"
    | "allowLocalRepos"
    | "maxRepoBytes"
    | "maxRepoFiles"
    | "repoLockTimeout"
    | "gitTimeout"
    | "gitAuthorName"
    | "gitAuthorEmail"
  >;

/** What every function of this folder works with. */
export type GitContext = {
  settings: RepoSettings;
  env: NodeJS.ProcessEnv;
  tokens: Tokens;
  /** Keys of the caches that this process has checked for what a crash may have left. */
  checked: Set<string>;
  takeLease?: TakeLease;
};

/** A lock that all instances know, held until it is given back. */
export type Lease = {
  /** Never rejects. */
  release: () => Promise<void>;
  /** Aborted when it could not be kept: another instance may hold it now. */
  lost: AbortSignal;
};

/** Null: somebody holds it. Rejects when the store that keeps the leases cannot be asked. */
export type TakeLease = (name: string, signal: AbortSignal) => Promise<Lease | null>;

export type GitCall = Omit<GitOptions, "env" | "timeoutSeconds">;

export const runGit = (context: GitContext, args: readonly string[], call: GitCall): Promise<GitOutput> =>
  git(args, { ...call, env: context.env, timeoutSeconds: context.settings.gitTimeout });

/** Name of the cache of the jobs that have no repository: it holds nothing but their salvage refs and branches. */
export const noRepository = "no-repository";

/** Where the cached clone of a repository lies, with its lock. Null: that of jobs without one. */
export const cacheDirectory = ({ settings }: GitContext, key: string | null): string =>
  join(settings.reposRoot, key ?? noRepository);

export const cacheGitDir = (context: GitContext, key: string | null): string =>
  join(cacheDirectory(context, key), "repo.git");

/** Names the git directory outright, so that no file an agent wrote can redirect git to another one. */
export const gitDirVariables = (gitDir: string): Record<string, string> => ({
  GIT_DIR: gitDir,
  GIT_COMMON_DIR: gitDir,
});

/** The two roots without symbolic links on the way to them: git names directories by their real path. They need not exist yet. */
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
