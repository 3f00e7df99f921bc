import { z } from "zod";
import { TaskFiles as Files, type TaskFile } from "../contract/run-options.ts";
import { isJobId } from "./job-record.ts";
import { parseWith, type Kind, type Records } from "./records.ts";

type Stored = { files: TaskFile[] };

/** Files of a job, apart from its record, which is read and written often: `{prefix:j}:files:{job_id}`, or a file. */
export const taskFilesKind: Kind<Stored> = {
  noun: "job's files",
  key: "files",
  isId: isJobId,
  parse: parseWith(z.object({ files: Files })),
};

/** The files that were submitted with jobs. Rejects with `ServiceError("store_unavailable")`. */
export const createTaskFiles = (records: Records<Stored>) => ({
  put: async (jobId: string, files: TaskFile[]): Promise<void> =>
    void (await records.change(jobId, () => ({ files }))),
  /** Null: there are none. */
  get: async (jobId: string): Promise<TaskFile[] | null> => (await records.get(jobId))?.files ?? null,
  remove: async (jobId: string): Promise<void> => void (await records.change(jobId, () => null)),
});

export type TaskFiles = ReturnType<typeof createTaskFiles>;
