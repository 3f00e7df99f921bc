import { realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { isLoopbackHost } from "../config/formats.ts";
import type { Settings } from "../config/variables.ts";
import { onGitHost, takesToken } from "../contract/repository-url.ts";
import { git, GitError, type GitOptions, type GitOutput } from "../lib/git.ts";
import { withoutLeftovers } from "./git-directory.ts";
import { callHost } from "./host-call.ts";
import type { Tokens, TokenSettings } from "./tokens.ts";
import { type Confine, type Tree, wallFor } from "./wall.ts";

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
    | "gitSigningKey"
  >;

/** What every function of this folder needs. */
export type GitContext = {
  settings: RepoSettings;
  env: NodeJS.ProcessEnv;
  tokens: Tokens;
  confine: Confine;
  /** Directories with git's own files, where it is not below /usr. */
  programs: Promise<readonly string[]>;
  /** Keys of the caches from which this process has removed the remains of a crash. */
  checked: Set<string>;
  takeLease?: TakeLease;
  /** Called with a ref of saved work that a damaged cached clone has lost, and a sentence about it. */
  onLost: (ref: string, message: string) => void;
  /** Of the call that is served. */
  signal: AbortSignal;
  /** Marks git's processes as those of a job. */
  jobId?: string | undefined;
};

/** The context of whoever holds a repository's lock. Its signal is also aborted when the lock is lost. */
export type LockedContext = GitContext & {
  /** The locked descriptor, for git processes: one that outlives a killed service still blocks the next holder. */
  lockFd: number;
  /** Aborted when another instance may have the lock. */
  lost: AbortSignal;
};

/** A lock across all instances. */
type Lease = {
  /** Never rejects. */
  release: () => Promise<void>;
  /** Aborted when it could not be renewed: another instance may hold it now. */
  lost: AbortSignal;
};

/** Null: another holder has it. Rejects when the store of the leases is unreachable. */
export type TakeLease = (name: string, signal: AbortSignal) => Promise<Lease | null>;

/**
 * Where git works: a git directory that no agent can write, or a tree of an agent's files, and then behind the wall. It is
 * always named: no file that an agent wrote can redirect git to another one. Null: none is needed.
 */
export type Where = string | Tree | null;

type GitCall = Pick<
  GitOptions,
  "input" | "inputFd" | "encoding" | "onOutput" | "variables" | "config" | "secrets" | "credential"
>;

/** @throws GitError, or the signal's reason */
export const runGit = async (
  context: GitContext & Partial<LockedContext>,
  where: Where,
  args: readonly string[],
  call: GitCall = {},
): Promise<GitOutput> => {
  const { env, settings, signal, jobId, lockFd: inheritFd, confine } = context;
  const process = { env, timeoutSeconds: settings.gitTimeout, signal, jobId, inheritFd, maxOutputBytes };
  if (where === null || typeof where === "string") {
    const directory = where === null ? {} : { GIT_DIR: where, GIT_COMMON_DIR: where };
    return git(args, { ...process, ...call, variables: { ...directory, ...call.variables } });
  }
  const made = await wallFor({ confine, programs: await context.programs }, where);
  await using wall = made.wall;
  const own = { cwd: where.path, wall, variables: { ...made.variables, ...call.variables } };
  return await git(args, { ...process, ...call, ...own });
};

const maxOutputBytes = 400 * 1024 * 1024;

/** What git gives, or what `otherwise` makes of its refusal. An end by a signal or by the time limit is none. */
export const unlessRefused = async <Value, Other>(
  running: Promise<Value>,
  otherwise: (error: GitError) => Other | Promise<Other>,
): Promise<Value | Other> => {
  try {
    return await running;
  } catch (error) {
    if (error instanceof GitError && error.ended === "exited") return otherwise(error);
    throw error;
  }
};

/** As `runGit`; null when git exits with 1, its code for "no" and "not found". */
export const runGitOrNull = (...call: Parameters<typeof runGit>): Promise<GitOutput | null> =>
  unlessRefused(runGit(...call), (error) => {
    if (error.exitCode === 1) return null;
    throw error;
  });

/** Name of the cache for jobs without a repository. It has only their salvage refs and branches. */
export const noRepository = "no-repository";

/** Directory of a repository's cached clone and its lock. Null: that of jobs without a repository. */
export const cacheDirectory = ({ settings }: Pick<GitContext, "settings">, key: string | null): string =>
  join(settings.reposRoot, key ?? noRepository);

export const cacheGitDir = (context: Pick<GitContext, "settings">, key: string | null): string =>
  join(cacheDirectory(context, key), "repo.git");

/** Whether jobs may name repositories on the service's disk. */
export const allowsLocal = ({ allowLocalRepos, host }: RepoSettings): boolean =>
  allowLocalRepos ?? isLoopbackHost(host);

/** Resolves symbolic links in the two roots, because git names directories by their real path. They need not exist. */
export const withRealRoots = (settings: RepoSettings): RepoSettings => ({
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

type RemoteCall = Pick<GitCall, "input" | "config"> & {
  /** The command with its options: `["ls-remote", "--quiet"]`. */
  command: readonly [command: "clone" | "fetch" | "ls-remote" | "push", ...options: string[]];
  refs?: readonly string[];
  where?: Where;
  /** The repository may not exist yet: the token is not narrowed to it. */
  mayBeMissing?: boolean;
};

/**
 * Runs git with what it needs to reach this server and no other: the protocol and, for the git host, a helper that reads the
 * token from the environment. One that the host refuses is replaced once. A server whose fault may pass is asked again. No try
 * leaves anything in a clone whose lock the caller has.
 */
export const runRemote = async (
  context: GitContext & Partial<LockedContext>,
  url: string,
  { command, refs = [], where = null, mayBeMissing = false, input, config = [] }: RemoteCall,
): Promise<GitOutput> => {
  const { gitHost, gitHostAppId } = context.settings;
  const { tokens, signal, lost } = context;
  const args = [...command, ...serverOptions(url, command[0]), "--", url, ...refs];
  const protocol = { GIT_ALLOW_PROTOCOL: protocolOf(url) };
  const narrowed = mayBeMissing ? null : onGitHost(url, gitHost);
  const once = (call: GitCall): Promise<GitOutput> => {
    const asking = () => runGit(context, where, args, call);
    return lost === undefined || typeof where !== "string" ? asking() : withoutLeftovers(lost, where, asking);
  };
  const run = async (isRetry: boolean): Promise<GitOutput> => {
    const token = takesToken(url, gitHost) ? await tokens.get(narrowed, signal) : null;
    const ask = (call: GitCall) => callHost(signal, () => once(call));
    // A disk is no host: it is asked once.
    if (isLocal(url)) return once({ variables: protocol, input, config });
    if (token === null) return ask({ variables: protocol, input, config });
    const running = ask({
      config: [...config, [`credential.https://${gitHost}.helper`, helper]],
      variables: { ...protocol, SERVICE_GIT_TOKEN: token },
      secrets: [token],
      credential: gitHostAppId === null ? staticToken : "the app's token (GIT_HOST_APP_ID)",
      input,
    });
    return unlessRefused(running, (error) => {
      if (isRetry || !/Authentication failed/i.test(error.said) || !tokens.refused(token)) throw error;
      return run(true);
    });
  };
  return run(false);
};

export const staticToken = "GIT_HOST_TOKEN";

const helper = `!f() { test "$1" = get && printf 'username=x-access-token\\npassword=%s\\n' "$SERVICE_GIT_TOKEN"; }; f`;

/**
 * For a local path git starts a second process, which reads that repository's configuration: these options keep it from running
 * what that names (hooks, filters, fetches of missing objects).
 */
const serverOptions = (url: string, command: RemoteCall["command"][0]): string[] => {
  if (!isLocal(url)) return [];
  const program = command === "push" ? "receive-pack" : "upload-pack";
  const config = serverConfig.map((pair) => `-c ${pair}`).join(" ");
  return [`--${program}=GIT_ALLOW_PROTOCOL=none git ${config} ${program}`];
};

const serverConfig = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.alternateRefsCommand=true",
  "receive.autogc=false",
  "receive.denyCurrentBranch=refuse",
];

/** Whether a repository is on this machine's disk. */
export const isLocal = (url: string): boolean => protocolOf(url) === "file";

const protocolOf = (url: string): string =>
  url.startsWith("/") ? "file" : (/^([a-z]+):\/\//.exec(url)?.[1] ?? "ssh");
