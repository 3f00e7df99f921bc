/** PORT of this folder: what the rest of the service asks of repositories. Implemented by `createRepos` in `create.ts`. */
export type Repos = {
  /**
   * Checks and normalises a repository URL. Empty stays empty.
   * @throws ServiceError `invalid_repo_url`
   */
  parseUrl: (url: string) => string;
  /**
   * Whether a path on this disk (one that `parseUrl` gave) holds a repository; other URLs are not looked at.
   * @throws ServiceError `invalid_repo_url`
   */
  checkLocalRepository: (url: string) => Promise<void>;
  /** @throws ServiceError `invalid_ref` when git would not take it as a branch or tag name */
  checkRef: (ref: string) => void;
  /** Makes the repository on the git host when it is missing there. Resolves to a sentence when it made one. */
  createMissing: (request: { url: string; private: boolean; signal: AbortSignal }) => Promise<string | null>;
  /** Clones or fetches into the cache, under the repository's lock. @throws RepoError `clone_failed` */
  fetch: (request: { url: string; jobId: string; signal: AbortSignal }) => Promise<CachedRepo>;
  /**
   * A worktree: a clone of its own that borrows its objects from the cached one, on a branch from `origin/{baseRef}` (or a
   * tag; empty: `main`, or the remote's default branch where there is no `main`); without a repository an empty one. An
   * existing worktree of this id is put back into use (resume): made again at the same path, from its branch as it was saved
   * or pushed, when its directory is gone. One of another instance, which must be lost, becomes this instance's.
   * @throws RepoError `worktree_failed`
   */
  addWorktree: (request: AddWorktree) => Promise<Worktree>;
  /** What the worktree holds beyond its base. Its directory must be there. */
  inspect: (worktree: Worktree, signal: AbortSignal) => Promise<WorktreeState>;
  /**
   * Commits everything to the worktree's branch: what is uncommitted, and what the agent committed on another branch or
   * on none. Resolves to the branch's tip; empty: it has no commit, and there was nothing to make one of.
   */
  commitAll: (worktree: Worktree, message: string, signal: AbortSignal) => Promise<string>;
  /** Copies the worktree's branch into the cached clone, where it outlives the worktree. */
  saveBranch: (worktree: Worktree, signal: AbortSignal) => Promise<void>;
  /**
   * Saves everything that the remote does not have, committed or not, stashes and other branches included, as a commit under
   * `refs/service/salvage/{name}` of the cached clone, and its branch with it. The worktree stays as it is.
   * @throws RepoError when anything that git takes could not be saved
   */
  salvage: (worktree: Worktree, name: string, signal: AbortSignal) => Promise<Saved>;
  /** A commit, in the worktree's own clone, of what it holds at this moment. Null: it has no commit and no file. */
  capture: (worktree: Worktree, signal: AbortSignal) => Promise<string | null>;
  /** Paths that differ from the base of a worktree, or how many commits were made that change none; empty: nothing. */
  changes: (worktree: Worktree, signal: AbortSignal) => Promise<string[]>;
  /** @throws RepoError `push_failed` */
  push: (worktree: Worktree, signal: AbortSignal) => Promise<void>;
  /**
   * Opens a pull request for the pushed branch, or finds the open one.
   * @throws RepoError `pr_failed`
   */
  openPullRequest: (request: PullRequest) => Promise<{ url: string | null; reason: string | null }>;
  /** Removes a worktree of ours, whatever it holds: what is to be saved was saved before. Safe to call twice. */
  removeWorktree: (worktree: Pick<Worktree, "worktreeId">, signal: AbortSignal) => Promise<void>;
  /** The worktree with this id as its owner file tells, or null. */
  findWorktree: (worktreeId: string) => Promise<Worktree | null>;
  /** Ids of all worktrees that the service owns under the root. */
  listWorktreeIds: () => Promise<string[]>;
  /** At start: clears what a crash left of files that were being written under the root. One service uses a root. */
  clearRoot: () => Promise<void>;
  /** Where a worktree of this id is, or would be made. */
  worktreePath: (worktreeId: string) => string;
  /** Git directory of the cached clone; null: that of jobs without a repository. It need not be there. */
  cachedClone: (repoKey: string | null) => string;
  /** See `repo_key` of the contract. The URL is one that `parseUrl` gave. */
  keyOf: (url: string) => string;
  /** What the disk says of a worktree; null: the service owns none of this id under the root. Changes nothing. */
  readWorktree: (worktreeId: string) => Promise<WorktreeOnDisk | null>;
  /**
   * Whether the remote had everything of the worktree when it was last asked: nothing uncommitted, no commit that none of
   * its branches contains, no other repository in it. Nobody may be at work in the worktree.
   */
  isPushed: (worktree: Worktree, signal: AbortSignal) => Promise<boolean>;
  /** Bytes that a worktree takes on disk, left-out directories (`SERVICE_WORKTREE_SIZE_EXCLUDE`) not counted. */
  worktreeSize: (worktree: Pick<Worktree, "path">, signal: AbortSignal) => Promise<number>;
  /**
   * Deletes salvage refs and job branches of the cached clones whose last commit is older than `before`. Resolves to how many.
   */
  expireRefs: (before: Date, signal: AbortSignal) => Promise<number>;
  /** The cached clones and the bytes that each takes on disk. */
  cacheUsage: (signal: AbortSignal) => Promise<{ key: string; url: string; bytes: number }[]>;
};

/**
 * `ref`: where the work is saved; null: there was none. `kept`: what could not be saved because git does not take it, a few
 * words each (`nested repository at vendor/x`): the directory is to be kept.
 */
export type Saved = { ref: string | null; kept: string[] };

export type WorktreeOnDisk = {
  worktree: Worktree;
  /** The checkout was finished. */
  ready: boolean;
  /** Its directory is there. */
  directoryExists: boolean;
  /** When it was checked out. */
  since: Date;
  /** The instance that owns it; null: an older version, which did not say. */
  instance: string | null;
  /** A copy of another worktree's state, in which the read-only job of this id works: nobody else's to use. */
  isThrowaway: boolean;
  /** What is in it and could not be saved when that was tried last. */
  kept: string[];
};

export type CachedRepo = {
  url: string;
  /** First 12 hex digits of the sha256 of the normalised URL. */
  key: string;
  /** Absolute path of the bare clone. */
  gitDir: string;
  /** Things the checkout will not do as one might expect (submodules, LFS pointers …), a sentence each. */
  warnings: string[];
};

export type AddWorktree = {
  repo: CachedRepo | null;
  worktreeId: string;
  jobId: string;
  branch: string;
  baseRef: string;
  /** Makes a throwaway worktree of the state of another: a commit that `capture` gave. */
  source?: { worktree: Worktree; commit: string | null } | null;
  signal: AbortSignal;
};

/** As its owner file tells; all paths absolute. */
export type Worktree = {
  worktreeId: string;
  path: string;
  /** Its own clone. */
  gitDir: string;
  /** The cached clone that it borrows objects from, and where its work is saved. */
  cacheDir: string;
  repoUrl: string;
  repoKey: string | null;
  branch: string;
  baseRef: string;
  /** Commit the branch began at. Null: the repository was empty. */
  baseSha: string | null;
  warnings: string[];
};

export type WorktreeState = {
  /** The branch does not hold all there is: something is uncommitted, or was committed elsewhere than on the branch. */
  dirty: boolean;
  /** Tip of what the agent left checked out; null: no commit. */
  head: string | null;
  /** What git does not take, so that no commit has it, a few words each. */
  kept: string[];
  /** There are commits beside the branch: stashed, on another branch, or on none. */
  hasOtherCommits: boolean;
  /** Commits beyond the base. */
  ahead: number;
  diffStat: { files: number; insertions: number; deletions: number };
};

export type PullRequest = {
  worktree: Worktree;
  title: string;
  body: string;
  signal: AbortSignal;
};

/** Where the work of a job or a worktree is saved in the cached clone. */
export const salvageRef = (id: string): string => `refs/service/salvage/${id}`;

/** Why a step on a repository failed; `reason` becomes the job's failure reason, `message` its error. */
export class RepoError extends Error {
  override name = "RepoError";
  readonly reason: "clone_failed" | "worktree_failed" | "push_failed" | "pr_failed";
  readonly retryable: boolean;
  /** Nothing was wrong with the repository: the instances' common store was away, or another has what was needed. */
  readonly again: boolean;

  constructor(
    reason: RepoError["reason"],
    message: string,
    options: { cause?: unknown; retryable?: boolean; again?: boolean } = {},
  ) {
    super(message, { cause: options.cause });
    this.reason = reason;
    this.retryable = options.retryable ?? false;
    this.again = options.again ?? false;
  }
}

/** Nothing in a worktree can be captured; `message` says why in a few words. */
export class NotCaptured extends RepoError {
  override name = "NotCaptured";

  constructor(message: string) {
    super("worktree_failed", message);
  }
}
