import { join } from "node:path";
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

/** What every function of the room works with. */
export type Room = {
  settings: RepoSettings;
  env: NodeJS.ProcessEnv;
  tokens: Tokens;
  /** Keys of the caches that this process has looked over for what a crash may have left. */
  lookedOver: Set<string>;
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

export const runGit = (room: Room, args: readonly string[], call: GitCall): Promise<GitOutput> =>
  git(args, { ...call, env: room.env, timeoutSeconds: room.settings.gitTimeout });

export const cacheDirectory = ({ settings }: Room, key: string): string => join(settings.reposRoot, key);

export const cacheGitDir = (room: Room, key: string): string => join(cacheDirectory(room, key), "repo.git");

/** Names the git directory outright, so that no file an agent wrote can redirect git to another one. */
export const gitDirVariables = (gitDir: string): Record<string, string> => ({
  GIT_DIR: gitDir,
  GIT_COMMON_DIR: gitDir,
});
