import { isLoopbackHost } from "../config/loopback.ts";
import { diskUsage } from "../lib/disk-usage.ts";
import { addWorktree } from "./worktree-add.ts";
import { cacheUsage } from "./cache-usage.ts";
import { fetchRepo } from "./cache.ts";
import { commitAll } from "./commit.ts";
import { discardChanges } from "./discard.ts";
import { snapshot } from "./go-back.ts";
import { inspectWorktree } from "./inspect.ts";
import { listMarkers, readMarker, removeTornMarkers, worktreePath } from "./marker.ts";
import { createMissing, openPullRequest } from "./pull-requests.ts";
import { isPushed } from "./pushed.ts";
import { withRealRoots } from "./real-roots.ts";
import { pushBranch } from "./push.ts";
import { checkRef } from "./ref.ts";
import type { Repos } from "./repos.ts";
import type { RepoSettings, Room, TakeLease } from "./room.ts";
import { salvage } from "./salvage.ts";
import { surveyWorktree } from "./survey.ts";
import { createTokens } from "./tokens.ts";
import { checkLocalRepository, parseRepoUrl, repoKey } from "./url.ts";
import { removeWorktree } from "./worktree-remove.ts";

/**
 * Repositories on this machine's disk, with real git. `env` is where git finds programs, proxies and certificates;
 * `takeLease` takes what instances on other hosts respect too, where there are any.
 */
export const createRepos = ({
  settings,
  env,
  takeLease,
}: {
  settings: RepoSettings;
  env: NodeJS.ProcessEnv;
  takeLease?: TakeLease;
}): Repos => {
  const room: Room = {
    settings: withRealRoots(settings),
    env,
    tokens: createTokens(settings),
    lookedOver: new Set(),
    ...(takeLease !== undefined && { takeLease }),
  };
  const allowLocal = settings.allowLocalRepos ?? isLoopbackHost(settings.host);
  return {
    parseUrl: (url) => parseRepoUrl(url, { allowLocal }),
    checkLocalRepository,
    checkRef,
    createMissing: (request) => createMissing(room, request),
    fetch: (request) => fetchRepo(room, { ...request, allowLocal }),
    addWorktree: (request) => addWorktree(room, request),
    inspect: (worktree, signal) => inspectWorktree(room, worktree, signal),
    commitAll: (worktree, message, signal) => commitAll(room, { worktree, message, signal }),
    salvage: (worktree, jobId, signal) => salvage(room, { worktree, jobId, signal }),
    salvageStray: (worktree, jobId, signal) => salvage(room, { worktree, jobId, signal, stray: true }),
    snapshot: (worktree, signal) => snapshot(room, { worktree, signal }),
    discardChanges: (worktree, since, signal) => discardChanges(room, { worktree, since, signal }),
    push: (worktree, signal) => pushBranch(room, worktree, signal),
    openPullRequest: (request) => openPullRequest(room, request),
    removeWorktree: (worktree, signal) => removeWorktree(room, worktree, signal),
    findWorktree: async (worktreeId) => (await readMarker(room, worktreeId))?.worktree ?? null,
    listWorktreeIds: () => listMarkers(room),
    clearRoot: () => removeTornMarkers(room),
    worktreePath: (worktreeId) => worktreePath(room, worktreeId),
    keyOf: repoKey,
    surveyWorktree: (worktreeId) => surveyWorktree(room, worktreeId),
    isPushed: (worktree, signal) => isPushed(room, worktree, signal),
    worktreeSize: ({ path }, signal) => diskUsage(path, { exclude: settings.worktreeSizeExclude, signal }),
    cacheUsage: (signal) => cacheUsage(room, signal),
  };
};
