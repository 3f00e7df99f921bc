import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterFile } from "./cleanup.ts";

/** A fresh empty directory, removed after the test file that asked for it. */
export const temporaryDirectory = async (): Promise<string> => {
  const directory = await realpath(await mkdtemp(join(tmpdir(), "svc-test-")));
  afterFile(() => rm(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }));
  return directory;
};
