import { randomUUID } from "node:crypto";
import { RunTaskInput } from "../../src/contract/job.ts";
import { newRecord } from "../../src/jobs/new-record.ts";
import type { JobRecord } from "../../src/store/job-record.ts";

/** A queued job as the service would store it. */
export const sampleRecord = (over: Partial<JobRecord> = {}): JobRecord => ({
  ...newRecord({
    id: randomUUID(),
    now: new Date("2026-01-01T00:00:00Z"),
    input: RunTaskInput.parse({ task: "Fix it" }),
    repoUrl: "",
    profile: { name: "code", model: "sonnet", retryLost: false, rule: "requested" },
    ttlSeconds: 3600,
    idempotency: null,
    principal: "open",
    worktree: null,
    boundTo: null,
  }),
  warnings: [],
  ...over,
});

/** An instant that many seconds into 2026. */
export const at = (seconds: number): string => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString();

/** A job that has ended, as the service would store it. */
export const ended = (over: Partial<JobRecord> = {}): JobRecord =>
  sampleRecord({ status: "succeeded", ended_at: at(0), ...over });
