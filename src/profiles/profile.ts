import type { Profile } from "../contract/profile.ts";
import type { JobOptions } from "../contract/run-options.ts";
import type { AgentLaunch } from "../agents/agent.ts";
import type { CheckDefinition } from "./checks.ts";
import type { Deliver, OnLimit } from "./definition.ts";
import type { SetupKeys } from "./setup.ts";
import type { SessionJob } from "./transcript-home.ts";

/** PORT. What the rest of the service needs of profiles. Implemented by `createProfiles` in `profiles.ts`. */
export type Profiles = {
  /** All profiles by name, broken ones with their `error`. Read again when the directories have changed. */
  list: () => Promise<Profile[]>;
  /**
   * The profile of a task: the named one, or by the routing rules when `name` is empty or `auto`. `rule` says why:
   * `requested`, the matching `match` rule, or `SERVICE_DEFAULT_PROFILE`.
   * @throws ServiceError `unknown_profile`, `invalid_profile`
   */
  route: (request: {
    name: string;
    task: string;
    repoUrl: string;
  }) => Promise<ResolvedProfile & { rule: string; limits: Limits }>;
  /**
   * Checks the MCP file of a request; empty: none.
   * @throws ServiceError `invalid_request`
   */
  checkMcpFile: (filePath: string) => Promise<void>;
  /**
   * The profile as it is now, for one run: later changes of its files do not change the run. Copied files are read
   * when it is materialised.
   * @throws ProfileError when it is missing or unusable
   */
  pin: (name: string) => Promise<PinnedProfile>;
  /** Removes the config directory of a job; missing ones are ignored. */
  discard: (jobId: string) => Promise<void>;
  /** Finds the transcript of a session that began in a directory: an absolute path, or null. */
  findTranscript: (sessionId: string, cwd: string) => Promise<string | null>;
  /** Notes beside the transcripts that a job runs a session. Never rejects. */
  noteSession: (sessionId: string, job: SessionJob) => Promise<void>;
};

/** A loaded profile after `extends`, with all defaults. */
export type ResolvedProfile = Profile & {
  retryLost: boolean;
  /** A read-only profile: changes in the worktree are discarded at the end, and reported. */
  readOnly: boolean;
  /** What becomes of the agent's questions: a person is asked, it has to decide alone, or the job fails. */
  questions: "ask" | "never" | "fail";
  /** What its worktrees have besides the files that git has, and the limits of a run. */
  wanted: {
    submodules: boolean | "recursive";
    lfs: boolean;
    limits: Pick<AgentLaunch["allowed"], "memoryBytes" | "processes">;
  };
  /** Whether a person has to approve the agent's plan before it works. */
  plan: boolean;
  /** What becomes of a job at a usage limit of the model; null: as is usual for the credential. */
  onLimit: OnLimit | null;
  /** Templates of its commit message and pull request; null, absent: the usual texts. */
  deliver: Deliver;
  /** What makes a worktree of the repository ready, before its agent starts; null: nothing of the profile. */
  setupFor: (repoUrl: string) => SetupKeys | null;
  /** What the service runs on its work before that is called ready. */
  checks: CheckDefinition[];
  /** How often its agent is told of red checks, to mend them. */
  checkRounds: number;
  /** Whether the checks of the repository are run, too: those of `.svc/checks.yml` of the commit that the work begins with. */
  repositoryChecks: boolean;
  /** What becomes of the branch of a job whose checks stay red. */
  onRed: "none" | "push" | "draft";
  /** Whether a submission may name hosts that its agent may reach. */
  allowHost: boolean;
};

/** What the limits of a job may not exceed; null: no limit. */
export type Limits = Pick<JobOptions, "timeout_seconds" | "max_budget_usd" | "max_turns">;

type PinnedProfile = ResolvedProfile & {
  limits: Limits;
  /**
   * Writes the job's own config directory and returns how to start the CLI.
   * @throws ProfileError when the profile's files or the MCP file cannot be used
   */
  materialise: (request: MaterialiseRequest) => Promise<AgentLaunch>;
};

export type MaterialiseRequest = {
  jobId: string;
  worktreePath: string;
  worktreeId: string;
  repoKey: string | null;
  /** MCP config file of the request, empty when none. */
  filePath: string;
  /** Absent: none. */
  options?: JobOptions;
  /** Hosts that the submission names; absent: none. */
  allowHosts?: readonly string[];
};

/** Why a job's configuration keeps it from starting; `reason` becomes the job's failure reason. */
export class ProfileError extends Error {
  override name = "ProfileError";
  readonly reason: "profile_invalid" | "mcp_config_invalid";

  constructor(reason: ProfileError["reason"], message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.reason = reason;
  }
}
