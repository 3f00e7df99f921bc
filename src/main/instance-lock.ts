import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { lockFile, type FileLock } from "../lib/file-lock.ts";

/**
 * One service per directory of job files: two would overwrite each other's records. The kernel gives the lock back
 * when the process is gone, however it went.
 * @throws Error that names the directory when another service holds it
 */
export const lockInstance = async (jobsDir: string): Promise<FileLock> => {
  await mkdir(jobsDir, { recursive: true, mode: 0o700 });
  const lock = await lockFile(join(jobsDir, ".lock"), { timeoutSeconds: 0 });
  if (lock !== null) return lock;
  throw new Error(
    `Another service uses ${jobsDir}; stop it, or give this one a directory of its own with SERVICE_JOBS_DIR`,
  );
};
