import type { AgentEvent } from "../contract/event.ts";
import type { StageName } from "../contract/job.ts";
import type { JobPatch } from "../store/job-store.ts";
import type { JobRecord } from "../store/job-record.ts";

/** Does a claimed job. Given to the worker by the composition root: the engine knows no agent and no git. */
export type Execute = (record: JobRecord, run: Run) => Promise<Outcome>;

/** How an execution tells what it does, and hears that it shall stop. */
export type Run = {
  /** Aborted with a reason `Interruption`. */
  signal: AbortSignal;
  /** Stages from the push on are written at once: by them a job is finished whose instance is lost after it. */
  stage: (stage: StageName, detail?: string) => void;
  event: (event: AgentEvent) => void;
  /** Adds a sentence to the job's warnings and to its events. */
  warn: (message: string) => void;
  /** Progress that a crash may lose. */
  note: (patch: JobPatch) => void;
  /** Progress that must not be lost. False: the job is no longer this run's (cancelled): stop. */
  record: (patch: JobPatch) => Promise<boolean>;
  /** Whether the job still is this run's: to be asked before something is done that cannot be taken back. */
  isOwner: () => Promise<boolean>;
};

/** Why a run is to stop: the job was cancelled, this instance shuts down, or the job is (or may be) another instance's by now. */
export type Interruption = "cancel" | "shutdown" | "fence";

export type Outcome = { kind: "succeeded" | "failed" | "requeue"; patch: JobPatch };

/**
 * Cleans up after a run whose process is gone (crash, kill -9): ends what is left of its agent, saves its work. Says
 * what is to become of the job; the patch is applied whatever the job's state is.
 */
export type SettleLost = (record: JobRecord) => Promise<{ requeue: boolean; patch: JobPatch }>;
