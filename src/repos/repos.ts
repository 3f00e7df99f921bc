/** PORT of the room: what the rest of the service asks of repositories. Implemented by `createRepos` in `create.ts`. */
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
   * A worktree of the cached repository on a new branch from `origin/{baseRef}` (or a tag; empty: `main`, or the remote's
   * default branch where there is no `main`); for no repository a fresh directory with an empty git repository. An existing worktree of this id is put back into use (resume): recreated
   * at the same path from its branch when its directory is gone. One that another instance has, which must be lost, is
   * made here from its branch; what of it is on the other's disk is kept for that one.
   * @throws RepoError `worktree_failed`
   */
  addWorktree: (request: AddWorktree) => Promise<Worktree>;
  /** What the worktree holds beyond its base. */
  inspect: (worktree: Worktree, signal: AbortSignal) => Promise<WorktreeState>;
  /**
   * Commits everything to the worktree's branch: what is uncommitted, and what the agent committed on another branch or
   * on none. Resolves to the branch's tip; empty: it has no commit, and there was nothing to make one of.
   */
  commitAll: (worktree: Worktree, message: string, signal: AbortSignal) => Promise<string>;
  /**
   * Puts everything that is not in the base, committed or not, under `refs/service/salvage/{jobId}` of the cached
   * clone, without touching branch or index of the worktree; also when the directory is gone or damaged. What git does
   * not take as files (other repositories' histories, refused names) lies in the folder `.salvaged` of that commit, as
   * archives. Null: there was nothing.
   * @throws RepoError when anything could not be saved
   */
  salvage: (worktree: Worktree, jobId: string, signal: AbortSignal) => Promise<string | null>;
  /**
   * The same for what is left of a worktree that another instance has made anew: under `refs/service/salvage/{jobId}-{the
   * instance it is on}`, so that it is not mixed with what that one saves. `salvage` does so by itself where the two
   * share the cached clone.
   */
  salvageStray: (worktree: Worktree, jobId: string, signal: AbortSignal) => Promise<string | null>;
  /** What the worktree holds at this moment, to go back to. Nobody may be at work in it. */
  snapshot: (worktree: Worktree, signal: AbortSignal) => Promise<Snapshot>;
  /**
   * Throws away what was changed or committed since the snapshot; null: since the base. Resolves to what it threw away,
   * empty: nothing.
   */
  discardChanges: (worktree: Worktree, since: Snapshot | null, signal: AbortSignal) => Promise<string[]>;
  /** @throws RepoError `push_failed` */
  push: (worktree: Worktree, signal: AbortSignal) => Promise<void>;
  /**
   * Opens a pull request for the pushed branch, or finds the open one.
   * @throws RepoError `pr_failed`
   */
  openPullRequest: (request: PullRequest) => Promise<{ url: string | null; reason: string | null }>;
  /**
   * Removes worktree and directory. Its branch stays in the cache, unless it has no commit beyond the base. Safe to call
   * twice and after a crash in the middle.
   */
  removeWorktree: (worktree: Worktree, signal: AbortSignal) => Promise<void>;
  /** The worktree with this id as its marker file tells, or null. */
  findWorktree: (worktreeId: string) => Promise<Worktree | null>;
  /** Ids of all worktrees that the service owns under the root. */
  listWorktreeIds: () => Promise<string[]>;
  /** At start: clears what a crash left of files that were being written under the root. One service uses a root. */
  clearRoot: () => Promise<void>;
  /** Where a worktree of this id is, or would be made. */
  worktreePath: (worktreeId: string) => string;
  /** See `repo_key` of the contract. The URL is one that `parseUrl` gave. */
  keyOf: (url: string) => string;
  /** What the disk says of a worktree; null: the service owns none of this id under the root. Changes nothing. */
  surveyWorktree: (worktreeId: string) => Promise<WorktreeSurvey | null>;
  /**
   * Whether the remote had everything of the worktree when it was last asked: nothing uncommitted, no commit that none of
   * its branches contains, no other repository in it. Nobody may be at work in the worktree.
   */
  isPushed: (worktree: Worktree, signal: AbortSignal) => Promise<boolean>;
  /** Bytes that a worktree takes on disk, left-out directories (`SERVICE_WORKTREE_SIZE_EXCLUDE`) not counted. */
  worktreeSize: (worktree: Pick<Worktree, "path">, signal: AbortSignal) => Promise<number>;
  /** The cached clones and the bytes that each takes on disk. */
  cacheUsage: (signal: AbortSignal) => Promise<{ key: string; url: string; bytes: number }[]>;
};

/** A state of a worktree to go back to. */
export type Snapshot = {
  /** Commit that was checked out; null: none. */
  head: string | null;
  /** The branch that was checked out, as a full ref; null: none, the head was detached. */
  headRef: string | null;
  /** Tip of the worktree's own branch; null: it had no commit. */
  tip: string | null;
  /** All files but the ignored ones, as a tree. */
  tree: string;
  /** What git ignored: files, and directories (with a slash at the end). Bytes (latin1). They stay as they are. */
  ignored: string[];
  /** Copies of the histories of other repositories in it, and of submodules. Null: there were none. */
  repositories: Record<"inside" | "submodules", { file: string; names: string[]; sum: string } | null>;
  /** The index file: what was staged; written: seconds since 1970. Null: there was none. */
  index: { bytes: Uint8Array; written: number } | null;
};

export type WorktreeSurvey = {
  worktree: Worktree;
  /** The checkout was finished. */
  ready: boolean;
  /** Its directory is there. */
  standing: boolean;
  /** When it was checked out. */
  since: Date;
  /** The instance that made it; null: an older version, which did not say. */
  instance: string | null;
  /** Another instance that shares the clone has made the worktree anew, and has its branch. */
  isTaken: boolean;
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
  signal: AbortSignal;
};

/** As kept in a marker file beside the worktree; all paths absolute. */
export type Worktree = {
  worktreeId: string;
  path: string;
  /** Administrative directory of the worktree (`repo.git/worktrees/…`), used instead of the `.git` file the agent can write. */
  gitDir: string;
  commonDir: string;
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
  /** What git does not take, so that no commit has it: refused names, unreadable files, what is in submodules. Paths. */
  passedOver: string[];
  /** Entries of the stash that are the agent's. */
  stashed: number;
  /** What the agent used that all jobs of the repository share, a sentence each. */
  shared: string[];
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
