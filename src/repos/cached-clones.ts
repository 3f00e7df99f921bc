import { lstat, rm } from "node:fs/promises";
import { join } from "node:path";
import { diskUsage } from "../lib/disk-usage.ts";
import { cacheDirectory, cacheGitDir, noRepository, runGit, type GitContext } from "./git-context.ts";
import { textOf, urlOfConfig, withoutLeftovers } from "./git-directory.ts";
import { pushedDirectory } from "./lease.ts";
import { namesIn } from "./owner-file.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import { savedDirOf } from "./repos.ts";
import { repoKey } from "./url.ts";

/** Keys of all cached clones. Null: that of jobs without a repository. */
const keysOf = async ({ settings }: GitContext): Promise<(string | null)[]> => {
  const names = await namesIn(settings.reposRoot);
  const keys = names.filter((name) => /^[0-9a-f]{12}$/.test(name)).toSorted();
  return names.includes(noRepository) ? [...keys, null] : keys;
};

/** Deletes refs that were saved, and whose last commit was made, before `before`: their objects go later. Resolves to how many. */
export const expireRefs = async (context: GitContext, before: Date): Promise<number> => {
  let expired = 0;
  for (const key of await keysOf(context)) {
    expired += await expireIn(context, key, before);
    await forgetPushed(pushedDirectory(cacheGitDir(context, key)), before);
  }
  return expired;
};

/** Forgets which commits were pushed to branches that got none since. */
const forgetPushed = async (directory: string, before: Date): Promise<void> => {
  for (const file of (await namesIn(directory)).map((name) => join(directory, name)))
    if ((await lstat(file)).mtime < before) await rm(file);
};

const expireIn = async (context: GitContext, key: string | null, before: Date): Promise<number> => {
  const gitDir = savedDirOf(cacheGitDir(context, key));
  if ((await lstat(gitDir).catch(() => null)) === null) return 0;
  const format = "--format=%(committerdate:unix) %(refname) %(objectname)";
  const list = ["for-each-ref", format, "refs/service/salvage", "refs/heads"];
  const past: string[] = [];
  for (const line of (await runGit(context, gitDir, list)).stdout.split("\n")) {
    const [at, ref, commit] = line.split(" ");
    if (ref === undefined || Number(at) * 1000 >= before.getTime()) continue;
    const log = await lstat(join(gitDir, "logs", ref)).catch(() => null);
    if (log === null || log.mtime < before) past.push(`delete ${ref} ${commit}\n`);
  }
  if (past.length === 0) return 0;
  const input = past.join("");
  await withRepositoryLock(context, { key, url: `in ${gitDir}`, reason: "worktree_failed" }, (locked) =>
    withoutLeftovers(locked.lost, gitDir, () => runGit(locked, gitDir, ["update-ref", "--stdin"], { input })),
  );
  return past.length;
};

type CacheUsage = { key: string; url: string; bytes: number; damaged: string[] };

/** The cached clones with their sizes, and the damaged ones beside them. One whose configuration was changed has no URL. */
export const cacheUsage = async (context: GitContext): Promise<CacheUsage[]> => {
  const { signal } = context;
  const found: CacheUsage[] = [];
  for (const key of await keysOf(context)) {
    const gitDir = cacheGitDir(context, key);
    if (key === null || (await lstat(gitDir).catch(() => null))?.isDirectory() !== true) continue;
    const directory = cacheDirectory(context, key);
    const bytes = await diskUsage(directory, { exclude: [], signal });
    const beside = (await namesIn(directory)).filter((name) => name.startsWith("damaged-"));
    const url = urlOfConfig(await textOf(join(gitDir, "config"))) ?? "";
    const damaged = beside.map((name) => join(directory, name));
    found.push({ key, url: repoKey(url) === key ? url : "", bytes, damaged });
  }
  return found;
};
