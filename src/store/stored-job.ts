import { isFinal, jobStatuses } from "../contract/job.ts";
import { recordFormat, upgraded, type JobRecord } from "./job-record.ts";
import type { UpdateGuard } from "./job-store.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export const holds = (guard: UpdateGuard, record: JobRecord): boolean =>
  guard.status.includes(record.status) &&
  (guard.attempt ?? record.attempt) === record.attempt &&
  (guard.epoch === undefined || guard.epoch === record.instance_epoch);

export const isJobId = (id: string): boolean => uuid.test(id);

/** The text of a stored job as a record of this version, or why it is none. */
export const parseRecord = (text: string, id: string): JobRecord | string => {
  try {
    return checkRecord(JSON.parse(text), id);
  } catch (error) {
    return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
  }
};

const checkRecord = (value: unknown, id: string): JobRecord | string => {
  if (typeof value !== "object" || value === null) return "it holds no record";
  const record = upgraded(value);
  if (record === null) {
    const { format } = value as { format?: unknown };
    return `its format is ${String(format)}, this version reads 1 to ${recordFormat}`;
  }
  if (record.id !== id) return "it holds another job than its name says";
  if (!jobStatuses.includes(record.status)) return `its status ${String(record.status)} is unknown`;
  if (Number.isNaN(Date.parse(record.created_at))) return "it has no created_at";
  if (isFinal(record.status) && record.ended_at === null) return "it has ended without ended_at";
  return record;
};
