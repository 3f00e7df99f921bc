import { realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Settings } from "../config/variables.ts";
import { git, GitError, type GitOptions, type GitOutput } from "../lib/git.ts";
import { staticToken } from "./failure.ts";
import type { Tokens, TokenSettings } from "./tokens.ts";
import { onGitHost, takesToken } from "./url.ts";

export type RepoSettings = TokenSettings &
  Pick<
    Settings,
    | "host"
    | "podName"
    | "reposRoot"
    | "worktreeRoot"
    | "worktreeSizeExclude"
    | "allowLocalRepos"
    | "baseRef"
    | "maxRepoBytes"
    | "maxRepoFiles"
    | "repoLockTimeout"
    | "gitTimeout"
    | "gitAuthorName"
    | "gitAuthorEmail"
  >;

/** What every function of this folder needs. */
export type GitContext = {
  settings: RepoSettings;
  env: NodeJS.ProcessEnv;
  tokens: Tokens;
  /** Keys of the caches from which this process has removed the remains of a crash. */
  checked: Set<string>;
  takeLease?: TakeLease;
  /** Called with a ref of saved work that a damaged cached clone has lost, and a sentence about it. */
  onLost: (ref: string, message: string) => void;
};

/** A lock across all instances. */
export type Lease = {
  /** Never rejects. */
  release: () => Promise<void>;
  /** Aborted when it could not be renewed: another instance may hold it now. */
  lost: AbortSignal;
};

/** Null: another holder has it. Rejects when the store of the leases is unreachable. */
export type TakeLease = (name: string, signal: AbortSignal) => Promise<Lease | null>;

export type GitCall = Omit<GitOptions, "env" | "timeoutSeconds">;

export const runGit = (context: GitContext, args: readonly string[], call: GitCall): Promise<GitOutput> =>
  git(args, { ...call, env: context.env, timeoutSeconds: context.settings.gitTimeout });

/** As `runGit`; null when git exits with 1, its code for "no" and "not found". */
export const runGitOrNull = async (
  context: GitContext,
  args: readonly string[],
  call: GitCall,
): Promise<GitOutput | null> => {
  try {
    return await runGit(context, args, call);
  } catch (error) {
    if (error instanceof GitError && error.exitCode === 1) return null;
    throw error;
  }
};

/** Name of the cache for jobs without a repository. It has only their salvage refs and branches. */
export const noRepository = "no-repository";

/** Directory of a repository's cached clone and its lock. Null: that of jobs without a repository. */
export const cacheDirectory = ({ settings }: GitContext, key: string | null): string =>
  join(settings.reposRoot, key ?? noRepository);

export const cacheGitDir = (context: GitContext, key: string | null): string =>
  join(cacheDirectory(context, key), "repo.git");

/** Names the git directory explicitly: no file that an agent wrote can redirect git to another one. */
export const gitDirVariables = (gitDir: string): Record<string, string> => ({
  GIT_DIR: gitDir,
  GIT_COMMON_DIR: gitDir,
});

/** Resolves symbolic links in the two roots, because git names directories by their real path. They need not exist. */
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

type Access = {
  config: [string, string][];
  variables: Record<string, string>;
  secrets: string[];
  credential?: string;
};

type Network = {
  url: string;
  /** The repository may not exist yet: the token is not narrowed to it. */
  mayBeMissing?: boolean;
  signal: AbortSignal;
};

/**
 * Runs git with what it needs to reach the server of this URL and no other: the allowed protocol and, for the git host, a
 * credential helper that reads the token from the environment of the git process. The token is in no argument, file or
 * URL. A token that the host refuses (it was revoked) is replaced once.
 */
export const withNetwork = async <Value>(
  context: GitContext,
  network: Network,
  run: (access: Access) => Promise<Value>,
): Promise<Value> => {
  const access = await networkAccess(context, network);
  try {
    return await run(access);
  } catch (error) {
    const [token] = access.secrets;
    const isRefused = error instanceof GitError && /Authentication failed/i.test(error.said);
    if (!isRefused || token === undefined || !context.tokens.refused(token)) throw error;
    return run(await networkAccess(context, network));
  }
};

const networkAccess = async (
  context: GitContext,
  { url, mayBeMissing = false, signal }: Network,
): Promise<Access> => {
  const protocol = { GIT_ALLOW_PROTOCOL: protocolOf(url) };
  const { gitHost, gitHostAppId } = context.settings;
  const repo = mayBeMissing ? null : onGitHost(url, gitHost);
  const token = takesToken(url, gitHost) ? await context.tokens.get(repo, signal) : null;
  if (token === null) return { config: [], variables: protocol, secrets: [] };
  return {
    config: [[`credential.https://${gitHost}.helper`, helper]],
    variables: { ...protocol, SERVICE_GIT_TOKEN: token },
    secrets: [token],
    credential: gitHostAppId === null ? staticToken : "the app's token (GIT_HOST_APP_ID)",
  };
};

/**
 * For a local path git starts a second process, which reads that repository's configuration and not the options of the
 * first. These options keep it from running what the repository names: hooks, filters of a working tree, fetches of
 * missing objects.
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
