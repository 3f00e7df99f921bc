import { readFileSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as breathe } from "node:timers/promises";
import { temporarySuffix } from "../../lib/atomic-file.ts";
import type { Log } from "../../lib/log.ts";
import { withoutWaiting } from "../../lib/without-waiting.ts";
import type { JobRecord } from "../job-record.ts";
import { isJobId, parseRecord } from "../stored-job.ts";

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
