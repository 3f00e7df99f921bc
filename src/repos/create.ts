import { isLoopbackHost } from "../config/formats.ts";
import { diskUsage } from "../lib/disk-usage.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { addWorktree, removeWorktree } from "./add.ts";
import { fetchRepo } from "./cache.ts";
import { cacheUsage, expireRefs } from "./cached-clones.ts";
import { hasDirectory } from "./clone.ts";
import {
  captureCommit,
  changesSinceBase,
  commitAll,
  inspectWorktree,
  salvage,
  saveBranch,
  unsavable,
} from "./commit.ts";
import {
  cacheGitDir,
  withRealRoots,
  type GitContext,
  type RepoSettings,
  type TakeLease,
} from "./git-context.ts";
import { checkOutFiles, diffChange } from "./diff.ts";
import { createMissing, openPullRequest } from "./git-host.ts";
import { listOwned, readOwner, removeTornOwners, worktreePath } from "./owner-file.ts";
import { isPushed, pushBranch, tryPush } from "./push.ts";
import { baseLeftOut, checkRef } from "./ref.ts";
import type { Repos } from "./repos.ts";
import { createTokens, type OnToken } from "./tokens.ts";
import { checkLocalRepository, parseRepoUrl, repoKey } from "./url.ts";

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
}): Repos => {
  const context: GitContext = {
    settings: withRealRoots(settings),
    env,
    tokens: createTokens(settings, onToken),
    checked: new Set(),
    onLost,
    ...(takeLease !== undefined && { takeLease }),
  };
  const mutex = createKeyedMutex();
  const allowLocal = settings.allowLocalRepos ?? isLoopbackHost(settings.host);
  return {
    parseUrl: (url) => parseRepoUrl(url, { allowLocal }),
    checkLocalRepository,
    checkRef,
    baseLeftOut: (url) => baseLeftOut(context, url),
    createMissing: (request) => createMissing(context, request),
    fetch: (request) => fetchRepo(context, { ...request, allowLocal }),
    checkOutFiles: (request) => checkOutFiles(context, request),
    addWorktree: (request) => mutex.runExclusive(request.worktreeId, () => addWorktree(context, request)),
    inspect: (worktree, signal) => inspectWorktree(context, { worktree, signal }),
    commitAll: (worktree, message, signal) => commitAll(context, { worktree, message, signal }),
    saveBranch: (worktree, signal) => saveBranch(context, { worktree, signal }),
    salvage: (worktree, name, signal) => salvage(context, { worktree, name, signal }),
    capture: (worktree, signal) => captureCommit(context, { worktree, signal }),
    changes: (worktree, signal) => changesSinceBase(context, { worktree, signal }),
    diff: (request) => diffChange(context, request),
    tryPush: (worktree, signal) => tryPush(context, worktree, signal),
    push: (worktree, signal) => pushBranch(context, worktree, signal),
    openPullRequest: (request) => openPullRequest(context, request),
    removeWorktree: ({ worktreeId }, signal) =>
      mutex.runExclusive(worktreeId, () => removeWorktree(context, worktreeId, signal)),
    findWorktree: async (worktreeId) => (await readOwner(context, worktreeId))?.worktree ?? null,
    listWorktreeIds: () => listOwned(context),
    clearRoot: () => removeTornOwners(context),
    worktreePath: (worktreeId) => worktreePath(context, worktreeId),
    cachedClone: (key) => cacheGitDir(context, key),
    keyOf: repoKey,
    readWorktree: async (worktreeId) => {
      const owned = await readOwner(context, worktreeId);
      if (owned === null) return null;
      const { worktree, ready, since, instance, kept } = owned;
      const isThrowaway = owned.source !== null;
      const directoryExists = await hasDirectory(worktree);
      return { worktree, ready, since, instance, kept, isThrowaway, directoryExists };
    },
    expireRefs: (before, signal) => expireRefs(context, { before, signal }),
    isPushed: (worktree, signal) => isPushed(context, worktree, signal),
    unsavable: (worktree, signal) => unsavable(context, { worktree, signal }),
    worktreeSize: ({ path }, signal) => diskUsage(path, { exclude: settings.worktreeSizeExclude, signal }),
    cacheUsage: (signal) => cacheUsage(context, signal),
  };
};
