import type { JobRecord } from "../store/job-record.ts";

/** What every final state sets. */
export const endPatch = (record: JobRecord, at: Date) => ({
  ended_at: at.toISOString(),
  duration_ms: record.started_at === null ? null : Math.max(0, at.getTime() - Date.parse(record.started_at)),
  stages: [...record.stages, { stage: "ended" as const, at: at.toISOString(), attempt: record.attempt }],
});
