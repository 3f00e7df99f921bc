import { lstatSync, type Stats } from "node:fs";
import { parseRepoUrl, repositoryName, urlOfShort } from "../contract/repository-url.ts";
import { diskUsage } from "../lib/disk-usage.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { programFiles } from "../lib/process/program-files.ts";
import { addWorktree, removeWorktree } from "./add.ts";
import { fetchRepo } from "./cache.ts";
import { cacheUsage, expireRefs } from "./cached-clones.ts";
import { checkOutFiles } from "./checkout-care.ts";
import { keepApart } from "./clone.ts";
import {
  captureCommit,
  checkOutCommit,
  commitAll,
  fileAtBase,
  inspectWorktree,
  pathsAtBase,
  pathWith,
  restoreFiles,
  salvage,
  saveBranch,
  unsavable,
} from "./commit.ts";
import { diffChange } from "./diff.ts";
import {
  allowsLocal,
  cacheGitDir,
  withRealRoots,
  type GitContext,
  type RepoSettings,
  type TakeLease,
} from "./git-context.ts";
import { addToBody, createMissing, openPullRequest } from "./git-host.ts";
import { ignoredStill, ignoredWork, markAgentWork } from "./left-out.ts";
import { listOwned, readOwner, readOwners, removeTornOwners, worktreePath } from "./owner-file.ts";
import { mainId } from "./several.ts";
import { readNewObjects } from "./new-objects.ts";
import { isPushed, pushBranch, tryPush } from "./push.ts";
import { askHead, baseLeftOut, checkRef } from "./ref.ts";
import { savedDirOf, type Worktree } from "./repos.ts";
import { createTokens, type OnToken } from "./tokens.ts";
import { checkLocalRepository, repoKey } from "./url.ts";
import type { Confine } from "./wall.ts";

/** Everything that the service does with repositories. Steps of a job reject with a RepoError. */
export type Repos = ReturnType<typeof createRepos>;

/**
 * Repositories on this machine's disk, with real git. `env` gives git programs, proxies and certificates. `confine` puts the
 * wall of the sandbox around git where agents write. `takeLease` locks against instances on other hosts.
 */
export const createRepos = (request: {
  settings: RepoSettings;
  env: NodeJS.ProcessEnv;
  confine: Confine;
  takeLease?: TakeLease;
  onToken?: OnToken;
  onLost?: GitContext["onLost"];
}) => {
  const { settings, env, confine, takeLease, onToken = () => undefined, onLost = () => undefined } = request;
  const context: GitContext = {
    settings: withRealRoots(settings),
    env,
    tokens: createTokens(settings, onToken),
    confine,
    programs: programFiles(["git"], env["PATH"] ?? "").then(
      ({ readable }) => readable,
      () => [],
    ),
    checked: new Set(),
    onLost,
    signal: new AbortController().signal,
    ...(takeLease !== undefined && { takeLease }),
  };
  /** A function that takes a request, with the signal and the job in it. */
  const asked =
    <Request, Result>(run: (context: GitContext, request: Request) => Result) =>
    ({ signal, ...request }: Request & { signal: AbortSignal; jobId?: string }): Result =>
      run({ ...context, signal, jobId: request.jobId }, request as Request);
  /** A function that takes a worktree, or whatever it is about, and at last the signal. */
  const on =
    <About extends unknown[], Result>(run: (context: GitContext, ...about: About) => Result) =>
    (...call: [...About, signal: AbortSignal]): Result =>
      run({ ...context, signal: call.at(-1) as AbortSignal }, ...(call.slice(0, -1) as About));
  /** A worktree is made or removed by one call at a time. */
  const mutex = createKeyedMutex();
  const allowLocal = allowsLocal(settings);
  return {
    parseUrl: (url: string) => parseRepoUrl(urlOfShort(url, settings.gitHost), { allowLocal }),
    checkLocalRepository: (url: string) => checkLocalRepository(context, url),
    checkRef,
    baseLeftOut: (url: string) => baseLeftOut(context, url),
    /** The remote's default branch; null: it does not say. */
    defaultBranch: async (url: string, signal: AbortSignal): Promise<string | null> =>
      (await askHead({ ...context, signal }, url).catch(() => null))?.branch ?? null,
    createMissing: asked(createMissing),
    fetch: asked((git, { url }: { url: string }) => fetchRepo(git, { url, allowLocal })),
    checkOutFiles: asked(checkOutFiles),
    addWorktree: asked((git, request: Parameters<typeof addWorktree>[1]) =>
      mutex.runExclusive(request.worktreeId, () => addWorktree(git, request)),
    ),
    inspect: on(inspectWorktree),
    commitAll: on(commitAll),
    checkOutCommit: on(checkOutCommit),
    fileAtBase: on(fileAtBase),
    pathsAtBase: on(pathsAtBase),
    pathWith: on(pathWith),
    restoreFiles: on(restoreFiles),
    keepApart,
    markAgentWork,
    ignoredWork: on(ignoredWork),
    ignoredStill,
    saveBranch: on(saveBranch),
    salvage: on(salvage),
    capture: on(captureCommit),
    diff: asked(diffChange),
    readNewObjects: on(readNewObjects),
    tryPush: on(tryPush),
    push: on(pushBranch),
    openPullRequest: asked(openPullRequest),
    addToBody: asked(addToBody),
    removeWorktree: on((git, { worktreeId }: Pick<Worktree, "worktreeId">) =>
      mutex.runExclusive(worktreeId, () => removeWorktree(git, worktreeId)),
    ),
    findWorktree: async (worktreeId: string): Promise<Worktree | null> =>
      (await readOwner(context, worktreeId))?.worktree ?? null,
    /** The worktrees of further repositories beside this one. */
    furtherWorktrees: async (worktreeId: string): Promise<Worktree[]> => {
      const ids = (await listOwned(context)).filter((id) => id !== worktreeId && mainId(id) === worktreeId);
      const found = await Promise.all(ids.map((id) => readOwner(context, id)));
      return found.flatMap((owned) => owned?.worktree ?? []);
    },
    listWorktreeIds: () => listOwned(context),
    /** When it was checked out; null: there is none of this id. */
    worktreeSince: async (id: string): Promise<Date | null> => (await readOwner(context, id))?.since ?? null,
    /** Whether a worktree of the repository is on the branch. */
    hasWorktreeOn: async (repoUrl: string, branch: string): Promise<boolean> => {
      const name = repositoryName(repoUrl);
      const own = (await readOwners(context)).filter(({ worktree }) => worktree.branch === branch);
      return own.some(({ worktree }) => repositoryName(worktree.repoUrl) === name);
    },
    /** Removes unfinished files that a crash left under the root. Call it at the start; one service uses a root. */
    clearRoot: () => removeTornOwners(context),
    /** The path of a worktree with this id, whether it exists or not. */
    worktreePath: (worktreeId: string) => worktreePath(context, worktreeId),
    /** Git directory with saved work, whether it exists or not. Null: that of jobs without a repository. */
    savedClone: (key: string | null) => savedDirOf(cacheGitDir(context, key)),
    /** `repo_key` of the contract. Takes a URL that `parseUrl` gave. */
    keyOf: repoKey,
    /** The worktree's state on disk; null: the service has none of this id under the root. Changes nothing. */
    readWorktree: async (worktreeId: string) => {
      const owned = await readOwner(context, worktreeId);
      if (owned === null) return null;
      const { worktree, ready, since, instance, source, kept, ignored } = owned;
      const [directory, clone] = [worktree.path, worktree.gitDir].map(statsAt);
      const directoryExists = directory?.isDirectory() === true;
      // Another one after git or somebody else has changed it, as far as the times of its directories tell.
      const changed = `${directory?.mtimeMs} ${clone?.mtimeMs}`;
      const isThrowaway = source !== null;
      return { worktree, ready, since, instance, kept, ignored, isThrowaway, directoryExists, changed };
    },
    expireRefs: on(expireRefs),
    isPushed: on(isPushed),
    unsavable: on(unsavable),
    /** Size on disk in bytes, without the directories in SERVICE_WORKTREE_SIZE_EXCLUDE; with what the service keeps beside it. */
    worktreeSize: ({ path, ownDir }: Pick<Worktree, "path" | "ownDir">, signal: AbortSignal) =>
      diskUsage([path, ownDir], { exclude: settings.worktreeSizeExclude, signal }),
    cacheUsage: (signal: AbortSignal) => cacheUsage({ ...context, signal }),
  };
};

/** Synchronous: a list asks for each of its worktrees, and a thread for each costs ten times as much. */
const statsAt = (path: string): Stats | undefined => {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
};
