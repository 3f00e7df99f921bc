import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import type { RunOptions, TaskFile } from "../../contract/run-options.ts";
import { usageError } from "../failure.ts";

/** The flags that change one job alone. */
export type JobFlags = {
  model?: string;
  timeout?: number;
  budget?: number;
  maxTurns?: number;
  branch?: string;
  title?: string;
  file?: string[];
  allowHost?: string[];
  plan?: boolean;
  submodules?: boolean;
  recurseSubmodules?: boolean;
  lfs?: boolean;
};

/** The flags as `options` of a submission, over those of the job before. */
export const optionsOf = async (
  flags: JobFlags,
  kept: Partial<RunOptions> = {},
): Promise<{ options?: Partial<RunOptions> }> => {
  const given = {
    model: flags.model,
    timeout_seconds: flags.timeout,
    max_budget_usd: flags.budget,
    max_turns: flags.maxTurns,
    branch: flags.branch,
    title: flags.title,
    plan: flags.plan,
    submodules: flags.recurseSubmodules ? "recursive" : flags.submodules,
    lfs: flags.lfs,
    files: flags.file && (await readFiles(flags.file)),
  };
  const set = [...Object.entries(kept), ...Object.entries(given)].filter(
    ([, value]) => value !== null && value !== undefined,
  );
  return set.length === 0 ? {} : { options: Object.fromEntries(set) };
};

const readFiles = (paths: string[]): Promise<TaskFile[]> =>
  Promise.all(
    paths.map(async (path) => {
      const bytes = await readFile(path).catch((error: Error) => {
        throw usageError(`--file ${path}: it cannot be read: ${error.message}`);
      });
      const encoding = isUtf8(bytes) ? "utf-8" : "base64";
      return { name: basename(path), content: bytes.toString(encoding), encoding };
    }),
  );
