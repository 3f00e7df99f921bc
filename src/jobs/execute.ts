import type { AgentEvent } from "../contract/event.ts";
import type { StageName } from "../contract/job.ts";
import type { JobPatch } from "../store/job-store.ts";
import type { JobRecord } from "../store/job-record.ts";

/** Runs a claimed job. The composition root passes it to the worker: the engine knows neither agents nor git. */
export type Execute = (record: JobRecord, run: Run) => Promise<Outcome>;

/** How an execution reports progress and learns that it must stop. */
export type Run = {
  /** Aborted with a reason `Interruption`. */
  signal: AbortSignal;
  /** Stages from the push on are written at once: they decide whether a job whose instance is lost has succeeded. */
  stage: (stage: StageName, detail?: string) => void;
  event: (event: AgentEvent) => void;
  /** Adds a sentence to the job's warnings and to its events. */
  warn: (message: string) => void;
  /** Records progress that a crash may lose. */
  note: (patch: JobPatch) => void;
  /** Records progress durably. False: the run no longer owns the job (cancelled, say) and must stop. */
  record: (patch: JobPatch) => Promise<boolean>;
  /** Whether the run still owns the job. Ask before anything that cannot be undone. */
  isOwner: () => Promise<boolean>;
};

/** Why a run must stop: the job was cancelled, this instance shuts down, or another instance (perhaps) owns the job. */
export type Interruption = "cancel" | "shutdown" | "fence";

export type Outcome = { kind: "succeeded" | "failed" | "requeue"; patch: JobPatch };

/**
 * Cleans up after a run whose process was lost (crash, kill -9): ends the rest of its agent and saves its work.
 * `requeue`: whether the job may run again. The patch applies in any state of the job.
 */
export type SettleLost = (record: JobRecord) => Promise<{ requeue: boolean; patch: JobPatch }>;
