import type { ChangedFile, DiffFormat } from "../contract/diff.ts";

/** PORT: everything that the service does with repositories. `createRepos` in `create.ts` implements it. */
export type Repos = {
  /**
   * Checks and normalises a repository URL. Empty stays empty.
   * @throws ServiceError `invalid_repo_url`
   */
  parseUrl: (url: string) => string;
  /**
   * Refuses a local path, as `parseUrl` gives it, without a repository or with a shallow one. Does not check other URLs.
   * @throws ServiceError `invalid_repo_url`
   */
  checkLocalRepository: (url: string) => Promise<void>;
  /**
   * The base of a job at this URL that names none: the remote is asked, 5 s at most. Empty: it did not say. `warning`: a
   * sentence where its default branch is another one.
   */
  baseLeftOut: (url: string) => Promise<{ baseRef: string; warning: string | null }>;
  /** @throws ServiceError `invalid_ref` when git does not accept it as the name of a branch or tag */
  checkRef: (ref: string) => void;
  /**
   * Creates the repository on the git host if it is missing there. Resolves to a sentence about it, or null.
   * @throws RepoError `clone_failed`
   */
  createMissing: (request: { url: string; private: boolean; signal: AbortSignal }) => Promise<string | null>;
  /** Clones or fetches into the cache, under the repository's lock. @throws RepoError `clone_failed` */
  fetch: (request: { url: string; jobId: string; signal: AbortSignal }) => Promise<CachedRepo>;
  /**
   * Writes the files of a branch or tag to `{into}/{commit}`, unless they are there already. Resolves to the commit.
   * @throws RepoError `clone_failed`, `worktree_failed`
   */
  checkOutFiles: (request: FilesRequest) => Promise<string>;
  /**
   * Makes a worktree: a clone that borrows its objects from the cached clone, with a new branch from `origin/{baseRef}` or
   * the tag `baseRef`. Empty `baseRef`: SERVICE_BASE_REF, else the remote's default branch. Without a repository it is empty.
   *
   * An existing worktree of this id is reused, and takes over what others have pushed to its branch where that is a
   * fast-forward; where it is not, `behind` says so. If its directory is missing, it is made again at the same path, from its
   * branch as it was saved or pushed. One of another instance, which must be lost, becomes this instance's.
   * @throws RepoError `worktree_failed`
   */
  addWorktree: (request: AddWorktree) => Promise<Worktree>;
  /** What the worktree has beyond its base. Its directory must exist. */
  inspect: (worktree: Worktree, signal: AbortSignal) => Promise<WorktreeState>;
  /**
   * Commits everything to the worktree's branch: uncommitted files, and commits of the agent on another branch or on none.
   * Resolves to the branch's tip; empty: it has no commit, and there is nothing to commit.
   */
  commitAll: (worktree: Worktree, message: string, signal: AbortSignal) => Promise<string>;
  /** Copies the worktree's branch to the cached clone, where it outlives the worktree. */
  saveBranch: (worktree: Worktree, signal: AbortSignal) => Promise<void>;
  /**
   * Saves everything that the remote does not have as a commit under `refs/service/salvage/{name}` of the cached clone, and
   * the branch with it: uncommitted files, commits, stashes and other branches. The worktree stays as it is.
   * @throws RepoError when something that git takes could not be saved
   */
  salvage: (worktree: Worktree, name: string, signal: AbortSignal) => Promise<Saved>;
  /** Makes a commit of the worktree's current state, in its own clone. Null: it has no commit and no file. */
  capture: (worktree: Worktree, signal: AbortSignal) => Promise<string | null>;
  /** Paths that differ from the worktree's base, or the number of commits that change none. Empty: no changes. */
  changes: (worktree: Worktree, signal: AbortSignal) => Promise<string[]>;
  /**
   * A change, compared outside the worktree: an agent may work in it meanwhile. Null: a commit of it is not here.
   * @throws RepoError `worktree_failed`
   */
  diff: (request: DiffRequest) => Promise<Diff | null>;
  /** Asks the remote whether it takes pushes, and sends nothing. @throws RepoError `push_failed` */
  tryPush: (worktree: Worktree, signal: AbortSignal) => Promise<void>;
  /** @throws RepoError `push_failed` */
  push: (worktree: Worktree, signal: AbortSignal) => Promise<void>;
  /**
   * Opens a pull request for the pushed branch, or finds the open one.
   * @throws RepoError `pr_failed`
   */
  openPullRequest: (request: PullRequest) => Promise<{ url: string | null; reason: string | null }>;
  /** Removes a worktree of the service with all its content: the caller has saved it before. Can be repeated. */
  removeWorktree: (worktree: Pick<Worktree, "worktreeId">, signal: AbortSignal) => Promise<void>;
  /** The worktree with this id as in its owner file, or null. */
  findWorktree: (worktreeId: string) => Promise<Worktree | null>;
  /** Ids of all worktrees of the service under the root. */
  listWorktreeIds: () => Promise<string[]>;
  /** Removes unfinished files that a crash left under the root. Call it at the start; one service uses a root. */
  clearRoot: () => Promise<void>;
  /** The path of a worktree with this id, whether it exists or not. */
  worktreePath: (worktreeId: string) => string;
  /** Git directory of the cached clone, whether it exists or not. Null: that of jobs without a repository. */
  cachedClone: (repoKey: string | null) => string;
  /** `repo_key` of the contract. Takes a URL that `parseUrl` gave. */
  keyOf: (url: string) => string;
  /** The worktree's state on disk; null: the service has none of this id under the root. Changes nothing. */
  readWorktree: (worktreeId: string) => Promise<WorktreeOnDisk | null>;
  /**
   * Whether the remote, as last fetched, has everything of the worktree: no uncommitted file, no commit that is on none of
   * its branches, no nested repository. No agent may run in the worktree.
   */
  isPushed: (worktree: Worktree, signal: AbortSignal) => Promise<boolean>;
  /** What `salvage` would leave in the worktree, a few words each. No agent may run in it. */
  unsavable: (worktree: Worktree, signal: AbortSignal) => Promise<string[]>;
  /** Size on disk in bytes, without the directories in SERVICE_WORKTREE_SIZE_EXCLUDE. */
  worktreeSize: (worktree: Pick<Worktree, "path">, signal: AbortSignal) => Promise<number>;
  /**
   * Deletes salvage refs and job branches of the cached clones that were saved before `before`. Resolves to their
   * number.
   */
  expireRefs: (before: Date, signal: AbortSignal) => Promise<number>;
  /** The cached clones with their sizes on disk, and the damaged ones that lie beside them. */
  cacheUsage: (
    signal: AbortSignal,
  ) => Promise<{ key: string; url: string; bytes: number; damaged: string[] }[]>;
};

/**
 * `ref`: where the work is saved; null: there was none. `kept`: content that git does not take, a few words each (`nested
 * repository at vendor/x`). The caller must then keep the directory.
 */
export type Saved = { ref: string | null; kept: string[] };

export type WorktreeOnDisk = {
  worktree: Worktree;
  /** The checkout was finished. */
  ready: boolean;
  directoryExists: boolean;
  /** When it was checked out. */
  since: Date;
  /** The instance that owns it. */
  instance: string;
  /** A copy of another worktree's state, only for the read-only job of this id. */
  isThrowaway: boolean;
  /** Content that could not be saved at the last try. */
  kept: string[];
};

export type CachedRepo = {
  url: string;
  /** First 12 hex digits of the sha256 of the normalised URL. */
  key: string;
  /** Absolute path of the bare clone. */
  gitDir: string;
  /** What the caller should know about the cached clone, a sentence each. */
  warnings: string[];
};

export type FilesRequest = {
  url: string;
  /** Branch or tag; empty: the remote's default branch. */
  ref: string;
  /** Directory of the checkouts, each named by its commit. The caller has a lock on it. */
  into: string;
  signal: AbortSignal;
};

export type AddWorktree = {
  repo: CachedRepo | null;
  worktreeId: string;
  jobId: string;
  branch: string;
  /** Refuses a branch that the remote or an earlier job has, and the base. */
  mustBeNew?: boolean;
  baseRef: string;
  /** Makes a throwaway worktree of another one's state: a commit that `capture` gave. */
  source?: { worktree: Worktree; commit: string | null } | null;
  signal: AbortSignal;
};

/** A worktree as in its owner file. All paths are absolute. */
export type Worktree = {
  worktreeId: string;
  path: string;
  /** The agent's clone. No git of the service runs there. */
  gitDir: string;
  /** The service's git directory of it. */
  ownDir: string;
  /** The cached clone, whose objects it borrows and where its work is saved. */
  cacheDir: string;
  repoUrl: string;
  repoKey: string | null;
  branch: string;
  baseRef: string;
  /** The commit at which the branch began. Null: the repository was empty. */
  baseSha: string | null;
  warnings: string[];
  /** One of the warnings: what its branch has at the remote and not here. Never stored. */
  behind?: string;
};

export type WorktreeState = {
  /** Something is uncommitted, or checked out but not on the worktree's branch. */
  dirty: boolean;
  /** The commit that is checked out; null: none. */
  head: string | null;
  /** Content that git does not take, a few words each. No commit has it. */
  kept: string[];
  /** There are commits that are stashed, on another branch, or on none. */
  hasOtherCommits: boolean;
  /** Commits beyond the base. */
  ahead: number;
  diffStat: { files: number; insertions: number; deletions: number };
};

export type DiffRequest = {
  /** Empty: none. */
  repoUrl: string;
  /** The worktree in whose clone the commits may be; null: none. */
  worktreeId: string | null;
  /** A commit, or a ref of the cached clone; null: the worktree's files as they are now. */
  head: string | null;
  /** What a head is compared with: where its branch began; null: nothing. Files are compared with where the worktree began. */
  base: string | null;
  format: DiffFormat;
  maxBytes: number;
  signal: AbortSignal;
};

export type Diff = {
  /** Null: it is compared with nothing. */
  base: string | null;
  /** Null: it is in files only. */
  head: string | null;
  files: ChangedFile[];
  /** In the format that was asked for. Cut between two files when there is more than `maxBytes` of it. */
  text: string;
  truncated: boolean;
  /** Bytes that are not UTF-8 are lost in `text`. */
  lossy: boolean;
  /** What git does not take, a few words each. */
  kept: string[];
};

export type PullRequest = {
  worktree: Worktree;
  title: string;
  body: string;
  signal: AbortSignal;
};

/** The ref in the cached clone that saves the work of a job or worktree. */
export const salvageRef = (id: string): string => `refs/service/salvage/${id}`;

/** Why a step on a repository failed; `reason` becomes the job's failure reason, `message` its error. */
export class RepoError extends Error {
  override name = "RepoError";
  readonly reason: "clone_failed" | "worktree_failed" | "push_failed" | "pr_failed";
  readonly retryable: boolean;
  /** The job can be queued again: the shared store was unreachable, or another instance holds the lock. */
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

/** A worktree that cannot be captured at all. `message`: the reason, a few words. */
export class NotCaptured extends RepoError {
  override name = "NotCaptured";

  constructor(message: string) {
    super("worktree_failed", message);
  }
}
