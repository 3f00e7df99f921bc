import { createHash } from "node:crypto";
import { realpath } from "node:fs/promises";
import { join } from "node:path";
import type { Settings } from "../config/variables.ts";

/**
 * Directory that belongs to this instance alone, for its lock and its spool: with a store that instances share, the
 * directory of job files may be on a file system that they share too.
 */
export const stateDirectory = ({ jobsDir, kvUrl, podName }: Settings): string =>
  kvUrl === null ? jobsDir : join(jobsDir, "instances", podName);

/** A text that marks the processes of the instance that has this directory, and of no other on this machine. */
export const instanceMark = async (directory: string): Promise<string> =>
  createHash("sha256")
    .update(await realpath(directory))
    .digest("hex")
    .slice(0, 16);
