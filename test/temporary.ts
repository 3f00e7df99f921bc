import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

/** A fresh empty directory, removed after the test file that asked for it. */
export const temporaryDirectory = async (): Promise<string> => {
  const directory = await realpath(await mkdtemp(join(tmpdir(), "svc-test-")));
  afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
};
