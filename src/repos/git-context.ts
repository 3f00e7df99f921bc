import { realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Settings } from "../config/variables.ts";
import { git, type GitOptions, type GitOutput } from "../lib/git.ts";
import type { Tokens, TokenSettings } from "./tokens.ts";
import { takesToken } from "./url.ts";

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

type Access = Required<Pick<GitOptions, "config" | "variables" | "secrets">>;

/**
 * What git needs to talk to the server of this URL, and to no other: the one protocol, and for the git host's own host
 * name a credential helper that reads the token from the variable of this one git process. The token is in no argument,
 * file or URL.
 */
export const networkAccess = async (
  context: GitContext,
  url: string,
  signal: AbortSignal,
): Promise<Access> => {
  const protocol = { GIT_ALLOW_PROTOCOL: protocolOf(url) };
  const { gitHost } = context.settings;
  const token = takesToken(url, gitHost) ? await context.tokens.current(signal) : null;
  if (token === null) return { config: [], variables: protocol, secrets: [] };
  return {
    config: [[`credential.https://${gitHost}.helper`, helper]],
    variables: { ...protocol, SERVICE_GIT_TOKEN: token },
    secrets: [token],
  };
};

/**
 * The other end of a local path is a git of ours that reads that repository's configuration, and not what we set for the
 * near end. These options start it so that it runs nothing the repository names: no hooks, no filters of a working tree
 * that follows its branch, no fetch of its own for objects it says it lacks.
 */
export const serverOptions = (url: string, program: "upload-pack" | "receive-pack"): string[] =>
  protocolOf(url) === "file"
    ? [
        `--${program}=GIT_ALLOW_PROTOCOL=none git ${serverConfig.map((pair) => `-c ${pair}`).join(" ")} ${program}`,
      ]
    : [];

const serverConfig = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.alternateRefsCommand=true",
  "receive.autogc=false",
  "receive.denyCurrentBranch=refuse",
];

const helper = `!f() { test "$1" = get && printf 'username=x-access-token\\npassword=%s\\n' "$SERVICE_GIT_TOKEN"; }; f`;

const protocolOf = (url: string): string => {
  if (url.startsWith("/")) return "file";
  return /^([a-z]+):\/\//.exec(url)?.[1] ?? "ssh";
};
