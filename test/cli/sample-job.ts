import type { CheckEvent } from "../../src/contract/check.ts";
import type { SetupEvent } from "../../src/contract/setup.ts";
import type { AgentEvent, JobEvent, StageEvent } from "../../src/contract/event.ts";
import type { Job } from "../../src/contract/job.ts";
import { toJob } from "../../src/store/job-record.ts";
import { sampleRecord } from "../ports/job-record-sample.ts";

/** A queued job as the service would send it, with these fields changed. */
export const sampleJob = (changes: Partial<Job> = {}): Job => ({
  ...toJob(
    sampleRecord({
      id: "6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d",
      repo_url: "https://github.com/acme/app",
      task: "Fix the failing date test",
      model: null,
      ttl_seconds: 86_400,
      created_at: "2026-05-01T12:00:00.000Z",
      stages: [{ stage: "queued", at: "2026-05-01T12:00:00.000Z", attempt: 0 }],
    }),
  ),
  ...changes,
});

const begin = Date.parse("2026-05-01T12:00:00.000Z");

/** Time of the sample job's submission, ms since the epoch. */
export const sampleBegin = begin;

/** Event bodies as a log of them, numbered from 1, one second apart. */
export const sampleLog = (...events: (AgentEvent | StageEvent | SetupEvent | CheckEvent)[]): JobEvent[] =>
  events.map(
    (event, index) =>
      // The order of the log: an event's own fields come last.
      ({
        seq: index + 1,
        at: new Date(begin + index * 1000).toISOString(),
        attempt: 1,
        ...event,
      }) as JobEvent,
  );
