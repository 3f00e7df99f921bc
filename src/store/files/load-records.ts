import { readFileSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as breathe } from "node:timers/promises";
import { isFinal, jobStatuses } from "../../contract/job.ts";
import { temporarySuffix } from "../../lib/atomic-file.ts";
import type { Log } from "../../lib/log.ts";
import { withoutWaiting } from "../../lib/without-waiting.ts";
import { recordFormat, type JobRecord } from "../job-record.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export const isJobId = (id: string): boolean => uuid.test(id);

/**
 * Reads every record of the directory. A torn or foreign file is skipped with a warning and left where it is; what a
 * crashed write left behind is deleted. Synchronous reads in slices: four times as fast as asynchronous ones.
 */
export const loadRecords = async (
  directory: string,
  each: (record: JobRecord) => void,
  log: Log,
): Promise<void> => {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const names = await readdir(directory);
  for (const [count, name] of names.entries()) {
    if (count % 500 === 499) await breathe();
    if (name.endsWith(temporarySuffix)) await rm(join(directory, name), { force: true });
    if (!name.endsWith(".json")) continue;
    const record = readRecord(directory, name);
    if (typeof record === "string") log.warn({ file: join(directory, name) }, `job file skipped: ${record}`);
    else each(record);
  }
};

const readRecord = (directory: string, name: string): JobRecord | string => {
  const id = name.slice(0, -".json".length);
  if (!isJobId(id)) return "its name is not a job id";
  try {
    const path = join(directory, name);
    return parseRecord(readFileSync(path, { encoding: "utf8", flag: withoutWaiting.read }), id);
  } catch (error) {
    return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
  }
};

/** The text of a job file as a record of this version, or why it is none. */
export const parseRecord = (text: string, id: string): JobRecord | string => {
  try {
    return checkRecord(JSON.parse(text), id);
  } catch (error) {
    return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
  }
};

const checkRecord = (value: unknown, id: string): JobRecord | string => {
  if (typeof value !== "object" || value === null) return "it holds no record";
  const record = value as JobRecord;
  const format: unknown = record.format;
  if (record.id !== id) return "it holds another job than its name says";
  if (format !== recordFormat) return `its format is ${String(format)}, this version reads ${recordFormat}`;
  if (!jobStatuses.includes(record.status)) return `its status ${String(record.status)} is unknown`;
  if (Number.isNaN(Date.parse(record.created_at))) return "it has no created_at";
  if (isFinal(record.status) && record.ended_at === null) return "it has ended without ended_at";
  return record;
};
