import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterFile } from "./cleanup.ts";

/** A fresh empty directory, removed after the test file that asked for it. */
export const temporaryDirectory = async (below = tmpdir()): Promise<string> => {
  const directory = await realpath(await mkdtemp(join(below, "svc-test-")));
  afterFile(() => rm(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }));
  return directory;
};

/**
 * Runs something whose temporary files lie on a disk. Those of tests lie in shared memory, and a run that has places there
 * gets none of it under Landlock.
 */
export const outsideSharedMemory = async <Value>(action: () => Promise<Value>): Promise<Value> => {
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = await temporaryDirectory("/var/tmp");
  try {
    return await action();
  } finally {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  }
};
