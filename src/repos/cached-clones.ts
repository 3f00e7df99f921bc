import { lstat, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { diskUsage } from "../lib/disk-usage.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import {
  cacheDirectory,
  cacheGitDir,
  gitDirVariables,
  noRepository,
  runGit,
  type GitContext,
} from "./git-context.ts";
import { urlOfConfig, withoutLeftovers } from "./git-directory.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import { repoKey } from "./url.ts";

/** Refs that the service itself puts into a cached clone. */
const ownPrefixes = ["refs/service/salvage", "refs/heads"];

/**
 * Deletes the salvage refs and job branches of every cached clone that were saved, and whose last commit was made, before
 * `before`. Their objects stay: worktrees may borrow them. Resolves to how many refs it deleted.
 */
export const expireRefs = async (
  context: GitContext,
  { before, signal }: { before: Date; signal: AbortSignal },
): Promise<number> => {
  const names = await readdir(context.settings.reposRoot).catch(() => []);
  let expired = 0;
  for (const name of names)
    if (/^[0-9a-f]{12}$/.test(name) || name === noRepository)
      expired += await expireIn(context, { key: name === noRepository ? null : name, before, signal });
  return expired;
};

const expireIn = async (
  context: GitContext,
  { key, before, signal }: { key: string | null; before: Date; signal: AbortSignal },
): Promise<number> => {
  const gitDir = cacheGitDir(context, key);
  if ((await lstat(gitDir).catch(() => null)) === null) return 0;
  const call = { variables: gitDirVariables(gitDir), maxOutputBytes: 256 * 1024 * 1024, signal };
  const format = "--format=%(committerdate:unix) %(refname) %(objectname)";
  const { stdout } = await runGit(context, ["for-each-ref", format, ...ownPrefixes], call);
  const past: string[] = [];
  for (const line of stdout.split("\n")) {
    const [at, ref, commit] = line.split(" ");
    if (ref === undefined || Number(at) * 1000 >= before.getTime()) continue;
    const log = await lstat(join(gitDir, "logs", ref)).catch(() => null);
    if (log === null || log.mtime < before) past.push(`delete ${ref} ${commit}\n`);
  }
  if (past.length === 0) return 0;
  const locked = { key, url: `in ${gitDir}`, reason: "worktree_failed" as const, signal };
  await withRepositoryLock(context, locked, ({ lockFd, lost, signal: until }) => {
    const deletion = { ...call, input: past.join(""), inheritFd: lockFd, signal: until };
    return withoutLeftovers(gitDir, lost, () => runGit(context, ["update-ref", "--stdin"], deletion));
  });
  return past.length;
};

/** See the port. A clone whose configuration an agent has changed is listed without a URL. */
export const cacheUsage = async (
  context: GitContext,
  signal: AbortSignal,
): Promise<{ key: string; url: string; bytes: number; damaged: string[] }[]> => {
  const names = await readdir(context.settings.reposRoot).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  });
  const found: { key: string; url: string; bytes: number; damaged: string[] }[] = [];
  for (const key of names.filter((name) => /^[0-9a-f]{12}$/.test(name)).toSorted()) {
    const clone = await lstat(cacheGitDir(context, key)).catch(() => null);
    if (clone?.isDirectory() !== true) continue;
    const bytes = await diskUsage(cacheDirectory(context, key), { exclude: [], signal });
    const beside = (await readdir(cacheDirectory(context, key))).filter((name) =>
      name.startsWith("damaged-"),
    );
    const damaged = beside.map((name) => join(cacheDirectory(context, key), name));
    found.push({ key, url: await urlOf(context, key), bytes, damaged });
  }
  return found;
};

const urlOf = async (context: GitContext, key: string): Promise<string> => {
  const file = join(cacheGitDir(context, key), "config");
  const text = await readFile(file, { encoding: "utf8", flag: nonBlocking.read }).catch(() => "");
  const url = urlOfConfig(text);
  return url !== null && repoKey(url) === key ? url : "";
};
