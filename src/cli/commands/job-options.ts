import { isUtf8 } from "node:buffer";
import { readFile, stat } from "node:fs/promises";
import { basename } from "node:path";
import { maxFileBytes, type RunOptions, type TaskFile } from "../../contract/run-options.ts";
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
};

/** The flags as `options` of a submission; undefined: none is given. */
export const optionsOf = async (
  flags: JobFlags,
  kept: Partial<RunOptions> = {},
): Promise<{ options?: Partial<RunOptions> }> => {
  const { model, timeout: timeout_seconds, budget: max_budget_usd, maxTurns: max_turns } = flags;
  const { branch, title, file } = flags;
  const files = file === undefined ? undefined : await readFiles(file);
  const given = { model, timeout_seconds, max_budget_usd, max_turns, branch, title, files };
  const set = Object.entries({ ...kept, ...defined(given) }).filter(([, value]) => value !== null);
  return set.length === 0 ? {} : { options: Object.fromEntries(set) };
};

const defined = (values: object): object =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));

const readFiles = async (paths: string[]): Promise<TaskFile[]> => {
  let left = maxFileBytes;
  const files: TaskFile[] = [];
  for (const path of paths) {
    const found = await stat(path).catch(() => null);
    if (found === null) throw usageError(`--file ${path}: there is no such file`);
    if (!found.isFile())
      throw usageError(`--file ${path}: it is not a regular file; copy what it holds into one`);
    left -= found.size;
    if (left < 0)
      throw usageError(
        `--file ${path}: the files have more than 700 KiB together: make images smaller, or put the files into the repository`,
      );
    const bytes = await readFile(path);
    const encoding = isUtf8(bytes) ? "utf-8" : "base64";
    files.push({ name: basename(path), content: bytes.toString(encoding), encoding });
  }
  return files;
};
