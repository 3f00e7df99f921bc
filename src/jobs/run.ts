import { setTimeout as delay } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import type { EventLog } from "../store/event-log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";
import type { Run } from "./execute.ts";
import { maskEvents } from "../store/mask-events.ts";

type Dependencies = { store: JobStore; events: EventLog; now: () => Date; redact: Redactor; log: Log };

/** Interval at which an unreachable store is tried again, ms. */
const retryAfter = 200;

/** Makes the `Run` through which a claimed job reports. */
export const createRun = (
  { store, events, now, redact, log }: Dependencies,
  record: JobRecord,
  signal: AbortSignal,
): Run => {
  const stages = [...record.stages];
  const guard = { status: ["running" as const], attempt: record.attempt };
  const note = (patch: JobPatch | ((record: JobRecord) => JobPatch), lazy = true): void => {
    store.update(record.id, guard, patch, { lazy }).catch((error: unknown) => {
      log.warn({ err: error, job: record.id }, "progress of the job was not noted");
    });
  };
  /** Waits while the store is unreachable, until the run must end. */
  const whenThere = async <Value>(ask: () => Promise<Value>): Promise<Value> => {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof ServiceError) || error.code !== "store_unavailable") throw error;
        await delay(retryAfter, undefined, { signal });
      }
    }
  };
  return {
    signal,
    stage: (stage, detail) => {
      events.append(record.id, record.attempt, { type: "stage", stage, detail: detail ?? null });
      stages.push({ stage, at: now().toISOString(), attempt: record.attempt });
      note({ stages: [...stages] }, stage !== "pushed" && stage !== "pull_request");
    },
    event: maskEvents(redact, (event) => events.append(record.id, record.attempt, event)),
    warn: (message) => {
      const text = redact(message);
      events.append(record.id, record.attempt, { type: "warning", message: text });
      // Added to warnings that other writers may have recorded in the meantime.
      note(({ warnings }) => ({ warnings: [...warnings, text] }));
    },
    note: (patch) => note(redactDeep(patch, redact)),
    record: async (patch) => (await whenThere(() => store.update(record.id, guard, patch))) !== null,
    isOwner: async () => {
      const look = async (): Promise<boolean> => {
        const current = await store.get(record.id);
        return current?.status === "running" && current.attempt === record.attempt;
      };
      // While the store is unreachable, only a job that may run twice can have another owner.
      if (record.retry_lost === true) return await whenThere(look);
      return await look().catch((error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
        return true;
      });
    },
  };
};
