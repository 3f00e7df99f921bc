import { isLoopbackHost } from "../config/formats.ts";
import { diskUsage } from "../lib/disk-usage.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { addWorktree, removeWorktree } from "./add.ts";
import { fetchRepo } from "./cache.ts";
import { cacheUsage, expireRefs } from "./cached-clones.ts";
import { checkOutFiles } from "./checkout-care.ts";
import { hasDirectory } from "./clone.ts";
import { captureCommit, commitAll, inspectWorktree, salvage, saveBranch, unsavable } from "./commit.ts";
import { diffChange } from "./diff.ts";
import {
  cacheGitDir,
  withRealRoots,
  type GitContext,
  type RepoSettings,
  type TakeLease,
} from "./git-context.ts";
import { createMissing, openPullRequest } from "./git-host.ts";
import { listOwned, readOwner, removeTornOwners, worktreePath } from "./owner-file.ts";
import { isPushed, pushBranch, tryPush } from "./push.ts";
import { baseLeftOut, checkRef } from "./ref.ts";
import type {
  AddWorktree,
  DiffRequest,
  FilesRequest,
  PullRequest,
  Worktree,
  WorktreeOnDisk,
} from "./repos.ts";
import { createTokens, type OnToken } from "./tokens.ts";
import { checkLocalRepository, parseRepoUrl, repoKey } from "./url.ts";

type Asked = { signal: AbortSignal };

/** Everything that the service does with repositories. Steps of a job reject with a RepoError. */
export type Repos = ReturnType<typeof createRepos>;

/**
 * Repositories on this machine's disk, with real git. `env` gives git programs, proxies and certificates. `takeLease`
 * locks against instances on other hosts.
 */
export const createRepos = ({
  settings,
  env,
  takeLease,
  onToken = () => undefined,
  onLost = () => undefined,
}: {
  settings: RepoSettings;
  env: NodeJS.ProcessEnv;
  takeLease?: TakeLease;
  onToken?: OnToken;
  onLost?: GitContext["onLost"];
}) => {
  const context: GitContext = {
    settings: withRealRoots(settings),
    env,
    tokens: createTokens(settings, onToken),
    checked: new Set(),
    onLost,
    signal: new AbortController().signal,
    ...(takeLease !== undefined && { takeLease }),
  };
  const mutex = createKeyedMutex();
  const allowLocal = settings.allowLocalRepos ?? isLoopbackHost(settings.host);
  const on = (signal: AbortSignal, jobId?: string): GitContext => ({ ...context, signal, jobId });
  return {
    /**
     * Checks and normalises a repository URL. Empty stays empty.
     * @throws ServiceError `invalid_repo_url`
     */
    parseUrl: (url: string) => parseRepoUrl(url, { allowLocal }),
    checkLocalRepository,
    checkRef,
    baseLeftOut: (url: string) => baseLeftOut(context, url),
    createMissing: ({ signal, ...request }: { url: string; private: boolean } & Asked) =>
      createMissing(on(signal), request),
    /** Clones or fetches into the cache, under the repository's lock. */
    fetch: ({ url, jobId, signal }: { url: string; jobId: string } & Asked) =>
      fetchRepo(on(signal, jobId), { url, allowLocal }),
    checkOutFiles: ({ signal, ...request }: FilesRequest & Asked) => checkOutFiles(on(signal), request),
    addWorktree: ({ signal, ...request }: AddWorktree & Asked) =>
      mutex.runExclusive(request.worktreeId, () => addWorktree(on(signal, request.jobId), request)),
    inspect: (worktree: Worktree, signal: AbortSignal) => inspectWorktree(on(signal), worktree),
    commitAll: (worktree: Worktree, message: string, signal: AbortSignal) =>
      commitAll(on(signal), worktree, message),
    saveBranch: (worktree: Worktree, signal: AbortSignal) => saveBranch(on(signal), worktree),
    salvage: (worktree: Worktree, name: string, signal: AbortSignal) => salvage(on(signal), worktree, name),
    capture: (worktree: Worktree, signal: AbortSignal) => captureCommit(on(signal), worktree),
    diff: ({ signal, ...request }: DiffRequest & Asked) => diffChange(on(signal), request),
    tryPush: (worktree: Worktree, signal: AbortSignal) => tryPush(on(signal), worktree),
    push: (worktree: Worktree, signal: AbortSignal) => pushBranch(on(signal), worktree),
    openPullRequest: ({ signal, ...request }: PullRequest & Asked) => openPullRequest(on(signal), request),
    removeWorktree: ({ worktreeId }: Pick<Worktree, "worktreeId">, signal: AbortSignal) =>
      mutex.runExclusive(worktreeId, () => removeWorktree(on(signal), worktreeId)),
    /** The worktree with this id as in its owner file, or null. */
    findWorktree: async (worktreeId: string): Promise<Worktree | null> =>
      (await readOwner(context, worktreeId))?.worktree ?? null,
    /** Ids of all worktrees of the service under the root. */
    listWorktreeIds: () => listOwned(context),
    /** Removes unfinished files that a crash left under the root. Call it at the start; one service uses a root. */
    clearRoot: () => removeTornOwners(context),
    /** The path of a worktree with this id, whether it exists or not. */
    worktreePath: (worktreeId: string) => worktreePath(context, worktreeId),
    /** Git directory of the cached clone, whether it exists or not. Null: that of jobs without a repository. */
    cachedClone: (repoKey: string | null) => cacheGitDir(context, repoKey),
    /** `repo_key` of the contract. Takes a URL that `parseUrl` gave. */
    keyOf: repoKey,
    /** The worktree's state on disk; null: the service has none of this id under the root. Changes nothing. */
    readWorktree: async (worktreeId: string): Promise<WorktreeOnDisk | null> => {
      const owned = await readOwner(context, worktreeId);
      if (owned === null) return null;
      const { worktree, ready, since, instance, kept } = owned;
      const isThrowaway = owned.source !== null;
      const directoryExists = await hasDirectory(worktree);
      return { worktree, ready, since, instance, kept, isThrowaway, directoryExists };
    },
    expireRefs: (before: Date, signal: AbortSignal) => expireRefs(on(signal), before),
    isPushed: (worktree: Worktree, signal: AbortSignal) => isPushed(on(signal), worktree),
    /** What `salvage` would leave in the worktree, a few words each. No agent may run in it. */
    unsavable: (worktree: Worktree, signal: AbortSignal) => unsavable(on(signal), worktree),
    /** Size on disk in bytes, without the directories in SERVICE_WORKTREE_SIZE_EXCLUDE. */
    worktreeSize: ({ path }: Pick<Worktree, "path">, signal: AbortSignal) =>
      diskUsage(path, { exclude: settings.worktreeSizeExclude, signal }),
    cacheUsage: (signal: AbortSignal) => cacheUsage(on(signal)),
  };
};
