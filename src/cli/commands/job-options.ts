import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileLimits, type RunOptions } from "../../contract/run-options.ts";
import { usageError } from "../failure.ts";

/** The flags that change one job alone. */
export type JobFlags = {
  model?: string;
  timeout?: number;
  budget?: number;
  maxTurns?: number;
  branch?: string;
  title?: string;
  attach?: string[];
  allowHost?: string[];
  plan?: boolean;
  check?: string[];
  mustPass?: boolean;
  submodules?: boolean;
  recurseSubmodules?: boolean;
  lfs?: boolean;
  deliver?: boolean;
};

/** The flags as `options` of a submission, over those of the job before. */
export const optionsOf = (
  flags: JobFlags,
  kept: Partial<RunOptions> = {},
): { options?: Partial<RunOptions> } => {
  const given = {
    model: flags.model,
    timeout_seconds: flags.timeout,
    max_budget_usd: flags.budget,
    max_turns: flags.maxTurns,
    branch: flags.branch,
    title: flags.title,
    plan: flags.plan,
    checks: flags.check,
    must_pass: flags.mustPass,
    submodules: flags.recurseSubmodules ? "recursive" : flags.submodules,
    lfs: flags.lfs,
    deliver_only: flags.deliver,
  };
  const set = [...Object.entries(kept), ...Object.entries(given)].filter(
    ([, value]) => value !== null && value !== undefined,
  );
  return set.length === 0 ? {} : { options: Object.fromEntries(set) };
};

/** The files of `--attach`, which go with a submission. Too many bytes are told here: the service ends such a request. */
export const attachedOf = async ({ attach = [] }: Pick<JobFlags, "attach">): Promise<File[]> => {
  const files = await Promise.all(
    attach.map(async (path) => {
      const bytes = await readFile(path).catch((error: Error) => {
        throw usageError(`--attach ${path}: it cannot be read: ${error.message}`);
      });
      if (bytes.length === 0) throw usageError(`--attach ${path}: it is empty`);
      return new File([bytes], basename(path));
    }),
  );
  if (files.reduce((sum, { size }) => sum + size, 0) > fileLimits.bytes)
    throw usageError("--attach: the files must have at most 25 MiB together");
  return files;
};
