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
    profile: { name: "code", model: "sonnet" },
    ttlSeconds: 3600,
    idempotency: null,
    worktree: null,
  }),
  ...over,
});
