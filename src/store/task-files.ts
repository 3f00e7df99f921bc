import { z } from "zod";
import { TaskFiles as Files, type TaskFile } from "../contract/run-options.ts";
import { isJobId } from "./job-record.ts";
import { parseWith, type Kind, type Values } from "./records.ts";

type Stored = { files: TaskFile[] };

/** Files of a job, apart from its record, which is read and written often: `{prefix}:files:{job_id}`, or a file. */
export const taskFilesKind: Kind<Stored> = {
  noun: "job's files",
  key: "files",
  isId: isJobId,
  parse: parseWith((value) => z.object({ files: Files }).parse(value)),
};

/** The files that were submitted with jobs. Rejects with `ServiceError("store_unavailable")`. */
export type TaskFiles = {
  put: (jobId: string, files: TaskFile[]) => Promise<void>;
  /** Null: there are none. */
  get: (jobId: string) => Promise<TaskFile[] | null>;
  remove: (jobId: string) => Promise<void>;
};

export const createTaskFiles = (records: Values<Stored>): TaskFiles => ({
  put: async (jobId, files) => {
    await records.change(jobId, () => ({ files }));
  },
  get: async (jobId) => (await records.get(jobId))?.files ?? null,
  remove: async (jobId) => {
    await records.change(jobId, (current) => (current === null ? undefined : null));
  },
});
