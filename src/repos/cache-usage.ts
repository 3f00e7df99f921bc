import { lstat, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { diskUsage } from "../lib/disk-usage.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import { urlOfConfig } from "./git-directory.ts";
import { cacheDirectory, cacheGitDir, type GitContext } from "./git-context.ts";
import { repoKey } from "./url.ts";

/** See the port. A clone whose configuration an agent has changed is told without a URL. */
export const cacheUsage = async (
  context: GitContext,
  signal: AbortSignal,
): Promise<{ key: string; url: string; bytes: number }[]> => {
  const names = await readdir(context.settings.reposRoot).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  });
  const found: { key: string; url: string; bytes: number }[] = [];
  for (const key of names.filter((name) => /^[0-9a-f]{12}$/.test(name)).toSorted()) {
    const clone = await lstat(cacheGitDir(context, key)).catch(() => null);
    if (clone?.isDirectory() !== true) continue;
    const bytes = await diskUsage(cacheDirectory(context, key), { exclude: [], signal });
    found.push({ key, url: await urlOf(context, key), bytes });
  }
  return found;
};

const urlOf = async (context: GitContext, key: string): Promise<string> => {
  const file = join(cacheGitDir(context, key), "config");
  const text = await readFile(file, { encoding: "utf8", flag: nonBlocking.read }).catch(() => "");
  const url = urlOfConfig(text);
  return url !== null && repoKey(url) === key ? url : "";
};
