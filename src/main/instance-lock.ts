import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { lockFile, LockTimeoutError, type FileLock } from "../lib/file-lock.ts";

/**
 * One service per directory of job files: two would overwrite each other's records. The kernel gives the lock back
 * when the process is gone, however it went.
 * @throws Error that names the directory when another service holds it, or when it cannot be used
 */
export const lockInstance = async (jobsDir: string, signal: AbortSignal): Promise<FileLock> => {
  try {
    await mkdir(jobsDir, { recursive: true, mode: 0o700 });
    return await lockFile({ path: join(jobsDir, ".lock"), timeoutSeconds: 1, signal });
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof LockTimeoutError) {
      throw new Error(
        `Another service uses ${jobsDir}; stop it, or give this one a directory of its own with SERVICE_JOBS_DIR`,
        { cause },
      );
    }
    throw new Error(
      `The job records cannot be kept in ${jobsDir} (${cause instanceof Error ? cause.message : String(cause)}); make it a directory that the service may write to, or name another with SERVICE_JOBS_DIR`,
      { cause },
    );
  }
};
