import { setTimeout as delay } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import type { EventLog } from "../store/event-log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";
import type { CheckEvent } from "../contract/check.ts";
import type { SetupEvent } from "../contract/setup.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Answer } from "../contract/answer.ts";
import type { JobStatus, StageName, Waiting } from "../contract/job.ts";
import type { Notifier } from "../lib/notifier.ts";
import { createMailbox, type Mailbox } from "./mailbox.ts";
import { createNotes } from "./notes.ts";

type Dependencies = {
  store: JobStore;
  events: EventLog;
  /** Notified of each answer. */
  jobEnds: Pick<Notifier, "notify" | "waitFor">;
  /** Whether a question is not to be held any longer: the service stops, or others wait for the slot. */
  mustPark: () => Promise<boolean>;
  settings: { questionLive: number };
  now: () => Date;
  redact: Redactor;
  log: Log;
};

/** The states that a job may have while its run goes on. */
const whileItRuns: readonly JobStatus[] = ["running", "succeeded", "failed", "cancelled"];

/** Interval at which an unreachable store is tried again, ms. */
const retryMs = 200;

/** How often a held question is looked at, ms, although nobody has said that it has an answer. */
const askedEvery = 1000;

/** Makes the `Run` through which a claimed job reports. */
export const createRun = (deps: Dependencies, record: JobRecord, signal: AbortSignal): Run => {
  const { store, events, now, redact } = deps;
  const stages = [...record.stages];
  const began = performance.now();
  const workedMs = (): number => Math.round(record.worked_ms + performance.now() - began);
  const notes = createNotes({ ...deps, workedMs }, record);
  const whileReachable = async <Value>(ask: () => Promise<Value>): Promise<Value> => {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof ServiceError) || error.code !== "store_unavailable") throw error;
        await delay(retryMs, undefined, { signal });
      }
    }
  };
  const write = async (patch: JobPatch): Promise<boolean> =>
    (await whileReachable(() => notes.write(patch))) !== null;
  const answerOf = async (): Promise<Answer | null> =>
    (await store.get(record.id).catch(() => null))?.asked?.answer ?? null;
  return {
    signal,
    workedMs,
    completed: notes.completed,
    whileReachable,
    stage: (stage, detail) => {
      // A job that was parked, or whose agent was started again, has passed it.
      if (stages.some((passed) => passed.stage === stage && passed.attempt === record.attempt)) return;
      events.append(record.id, record.attempt, { type: "stage", stage, detail: detail ?? null });
      stages.push({ stage, at: now().toISOString(), attempt: record.attempt });
      const lazy = stage !== "pushed" && stage !== "pull_request";
      notes.note({ patch: { stages: [...stages] }, lazy });
    },
    event: (event) => events.append(record.id, record.attempt, event),
    warn: (message) => {
      const text = redact(message);
      events.append(record.id, record.attempt, { type: "warning", message: text });
      // Added to warnings that other writers may have recorded in the meantime. A job that was cancelled, or called lost,
      // has its final state before its run has ended.
      notes.note({ warning: text, status: whileItRuns });
    },
    note: (patch, options) => notes.note({ patch: redactDeep(patch, redact), ...options }),
    record: write,
    messages: createMailbox({
      ...deps,
      id: record.id,
      update: (patch) => whileReachable(() => notes.write(patch)),
    }),
    ask: async (waiting) => {
      if (!(await write({ waiting, asked: { waiting, answer: null } }))) return null;
      deps.jobEnds.notify(record.id);
      const live = AbortSignal.any([signal, AbortSignal.timeout(deps.settings.questionLive * 1000)]);
      for (;;) {
        const woken = deps.jobEnds.waitFor(
          record.id,
          AbortSignal.any([live, AbortSignal.timeout(askedEvery)]),
        );
        const answer = await answerOf();
        if (answer !== null || live.aborted || (await deps.mustPark())) return answer;
        await woken;
      }
    },
    isOwner: async () => {
      const look = async (): Promise<boolean> => {
        const current = await store.get(record.id);
        const { status, attempt, instance_epoch: epoch } = current ?? {};
        return status === "running" && attempt === record.attempt && epoch === record.instance_epoch;
      };
      // While the store is unreachable, only a job that may run twice can have another owner.
      if (record.retry_lost) return await whileReachable(look);
      return await look().catch((error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
        return true;
      });
    },
  };
};

/** Runs a claimed job. The composition root passes it to the worker: the engine knows neither agents nor git. */
export type Execute = (record: JobRecord, run: Run) => Promise<Outcome>;

/** How an execution reports progress and learns that it must stop. */
export type Run = {
  /** Aborted with a reason `Interruption`. */
  signal: AbortSignal;
  /** How long processes have worked on the job, ms, by a clock that nobody sets and that rests while the machine sleeps. */
  workedMs: () => number;
  /** Its outcome, with the time that it took and what the store has not taken yet. */
  completed: (outcome: Outcome) => Promise<Outcome>;
  /** Asks the store again while it is unreachable, until the run must end. */
  whileReachable: <Value>(ask: () => Promise<Value>) => Promise<Value>;
  /** Stages from the push on are written at once: they decide whether a job whose instance is lost has succeeded. */
  stage: (stage: StageName, detail?: string) => void;
  event: (event: AgentEvent | CheckEvent | SetupEvent) => void;
  /** Adds a sentence to the job's warnings and to its events. */
  warn: (message: string) => void;
  /** Records progress that a crash may lose if it is `lazy` (the default). */
  note: (patch: JobPatch, options?: { lazy: boolean }) => void;
  /** Records progress durably. False: the run no longer owns the job (cancelled, say) and must stop. */
  record: (patch: JobPatch) => Promise<boolean>;
  /** What the user says to the agent. */
  messages: Mailbox;
  /** Puts what the agent asks on record, then waits for a person's answer; null: the job must be parked without one. */
  ask: (waiting: Waiting) => Promise<Answer | null>;
  /** Whether the run still owns the job. Ask before anything that cannot be undone. */
  isOwner: () => Promise<boolean>;
};

/** Why a run must stop: the job was cancelled, this instance shuts down, or another instance (perhaps) owns the job. */
export type Interruption = "cancel" | "shutdown" | "fence";

/** `parked`: it goes on when it has an answer. `warnings`: those that are not on record. */
export type Outcome = {
  kind: "succeeded" | "failed" | "requeue" | "parked";
  patch: JobPatch;
  warnings?: readonly string[];
};

/** Cleans up after a run whose process was lost: ends its agent, saves its work. `requeue`: the job may run again. */
export type SettleLost = (record: JobRecord) => Promise<{ requeue: boolean; patch: JobPatch }>;
