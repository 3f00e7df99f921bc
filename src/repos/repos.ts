import { dirname, join } from "node:path";
import type { ChangedFile, DiffFormat } from "../contract/diff.ts";
import type { Limits } from "../lib/process/limits.ts";
import type { Repos } from "./create.ts";

export type { Repos };

/** `ref` null: there was no work. `kept`: content that git does not take, for which the directory must be kept. */
export type Saved = { ref: string | null; kept: string[] };

export type WorktreeOnDisk = NonNullable<Awaited<ReturnType<Repos["readWorktree"]>>>;

export type CachedRepo = {
  url: string;
  /** First 12 hex digits of the sha256 of the normalised URL. */
  key: string;
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
};

/** What a worktree has besides its own files (`recursive`: submodules of submodules, too), and the limits of its run. */
export type Wanted = { submodules: boolean | "recursive"; lfs: boolean; limits?: Limits | undefined };

export type AddWorktree = {
  /** Absent: nothing. */
  wanted?: Wanted;
  repo: CachedRepo | null;
  worktreeId: string;
  jobId: string;
  branch: string;
  /** Refuses a branch that the remote or an earlier job has, and the base. */
  mustBeNew?: boolean;
  baseRef: string;
  /** Makes a throwaway worktree of another one's state: a commit that `capture` gave. */
  source?: { worktree: Worktree; commit: string | null } | null;
};

/** A worktree as in its owner file. All paths are absolute. */
export type Worktree = {
  worktreeId: string;
  path: string;
  /** The agent's clone. No git of the service runs there. */
  gitDir: string;
  /** The service's git directory of it. */
  ownDir: string;
  /** The cached clone, whose objects it borrows. Jobs without a repository have none. */
  cacheDir: string;
  repoUrl: string;
  repoKey: string | null;
  branch: string;
  baseRef: string;
  /** The commit at which the branch began. Null: the repository was empty. */
  baseSha: string | null;
  warnings: string[];
  /** Keys of the cached clones whose objects its submodules borrow; absent: none. */
  submodules?: string[] | undefined;
  limits?: Limits | undefined;
  /** One of the warnings: what its branch has at the remote and not here. Never stored. */
  behind?: string;
  /** What the remote has of its branch, a sentence for the agent. Never stored. */
  atRemote?: string;
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
  /** Paths that differ from the base. */
  paths: string[];
};

export type DiffRequest = {
  /** Empty: none. */
  repoUrl: string;
  /** The worktree in whose clone the commits may be; null: none. */
  worktreeId: string | null;
  /** A commit, or a ref of saved work; null: the worktree's files as they are now. */
  head: string | null;
  /** What a head is compared with: where its branch began; null: nothing. Files are compared with where the worktree began. */
  base: string | null;
  format: DiffFormat;
  maxBytes: number;
};

export type Diff = {
  /** Null: it is compared with nothing. */
  base: string | null;
  /** Null: it is in files only. */
  head: string | null;
  files: ChangedFile[];
  /** In the format that was asked for, `maxBytes` at most. */
  text: string;
  truncated: boolean;
  /** Bytes that are not UTF-8 are lost in `text`. */
  lossy: boolean;
  /** What git does not take, a few words each. */
  kept: string[];
};

export type PullRequest = {
  worktree: Worktree;
  /** Whether it is not ready for review: one that is open already is no longer. */
  isDraft: boolean;
  title: string;
  body: string;
};

/** Where saved work and unpushed branches lie, beside the cached clone. No agent sees it. */
export const savedDirOf = (cacheDir: string): string => join(dirname(cacheDir), "saved.git");

/** The ref in `saved.git` that saves the work of a job or worktree. */
export const salvageRef = (id: string): string => `refs/service/salvage/${id}`;

/** Directories outside the worktree that its clone reads: the objects that it borrows, and Git LFS content beside them. */
export const borrowedBy = ({ cacheDir, ownDir, repoKey, submodules = [] }: Worktree): string[] => [
  ...(repoKey === null ? [] : [`${cacheDir}/objects`, `${cacheDir}/lfs`]),
  `${ownDir}/objects`,
  ...submodules.map((key) => join(cacheDir, "../..", key, "repo.git/objects")),
];

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

/** Files that a task brings and that are kept with its job, in a worktree. No commit of the service has them. */
export const exchanged = { in: ".svc/in", out: ".svc/out" } as const;

/** Patterns of the files that Claude Code keeps for itself. It hides them by `.git/info/exclude`, too. */
export const runtimeFiles = (
  "scheduled_tasks.lock scheduled_tasks.json routines/.state/ worktrees/ checkpoints/ mailbox/ agent-registry.json " +
  "agent-memory-local first-run assistant-daemon-state.json"
)
  .split(" ")
  .map((path) => `**/.claude/${path}`);

/** A worktree that git cannot capture. `message`: the reason, a few words. */
export class NotCaptured extends RepoError {
  override name = "NotCaptured";
  constructor(message: string) {
    super("worktree_failed", message);
  }
}
