import { existsSync } from "node:fs";
import { mkdir, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { bringObjects, bringReadable, readRefs, remoteRefs, writeRefs } from "./clone.ts";
import { type GitContext, type LockedContext, runGit } from "./git-context.ts";
import { borrowObjects, replace, restoreGitDirectory, textOf, withoutLeftovers } from "./git-directory.ts";
import { remoteBranches } from "./ref.ts";
import { type CachedRepo, savedDirOf, type Worktree } from "./repos.ts";
import { withRepositoryLock } from "./repository-lock.ts";

/*
 * `repo.git`, the cached clone, has what the remote has; agents and git behind the wall read it. `saved.git` beside it has
 * saved work and unpushed branches; only git outside reads it. It borrows what branches and tags of the remote reach, which
 * can be fetched again; not those of jobs, which are deleted when they are merged. `refs/bases` are the commits at which it
 * leaves the remote's: others after a fetch when the remote has dropped some.
 */

const savedRefs = ["refs/heads", "refs/service/salvage"];

/** The commits and tags that the remote had at the last fetch. `lasting`: without branches of jobs. */
export const remoteIds = async (cacheDir: string, { lasting = false } = {}): Promise<Set<string>> => {
  const isWanted = (name: string): boolean => !lasting || !name.startsWith(`${remoteBranches}service/`);
  const refs = [...(await readRefs(cacheDir, remoteRefs))];
  return new Set(refs.flatMap(([name, id]) => (isWanted(name) ? [id] : [])));
};

/** Readies the saved work beside a cached clone; makes it where there is none. `url`: empty for jobs without a repository. */
export const restoreSaved = async (context: GitContext, cacheDir: string, url: string): Promise<void> => {
  await restoreGitDirectory(context, savedDirOf(cacheDir), { url, bare: true });
  await borrowObjects(savedDirOf(cacheDir), [cacheDir]);
};

/** Refs of the commits at which others leave what the remote has: of a commit itself where the remote has it. */
const basesOf = async (
  context: GitContext,
  where: string,
  { commits, lasting }: { commits: readonly string[]; lasting: Set<string> },
): Promise<Map<string, string>> => {
  const input = [...commits, ...Array.from(lasting, (id) => `^${id}`), ""].join("\n");
  const { stdout } = await runGit(context, where, ["rev-list", "--boundary", "--stdin"], { input });
  const listed = new Set(stdout.split("\n"));
  const boundary = [...listed].flatMap((line) => (line.startsWith("-") ? [line.slice(1)] : []));
  const bases = [...boundary, ...commits.filter((commit) => !listed.has(commit))];
  return new Map(bases.map((id) => [`refs/bases/${id}`, id]));
};

/** Saves commits of a worktree under refs of `saved.git`. Takes the lock, and overwrites the refs. */
export const saveRefs = (
  context: GitContext,
  { repoKey: key, repoUrl: url, cacheDir, ownDir }: Worktree,
  refs: Map<string, string>,
): Promise<void> =>
  withRepositoryLock(context, { key, url, reason: "worktree_failed" }, async (locked) => {
    const saved = savedDirOf(cacheDir);
    await restoreSaved(locked, cacheDir, url);
    const commits = [...refs.values()];
    const lasting = await remoteIds(cacheDir, { lasting: true });
    const without = [...lasting, ...(await readRefs(saved, [...refs.keys()])).values()];
    await withoutLeftovers(locked.lost, saved, async () => {
      await bringObjects(locked, commits, { where: ownDir, lenders: [saved], without, into: saved });
      const bases = await basesOf(locked, ownDir, { commits, lasting });
      for (const ref of refs) {
        const input = [...bases, ref].map(([name, id]) => `update ${name} ${id}\n`).join("");
        await runGit(locked, saved, ["update-ref", "--stdin"], { input });
      }
    });
    // The time of saving is that of the ref's log, which git deletes with the ref: the date of a commit is the agent's.
    for (const log of Array.from(refs.keys(), (ref) => join(saved, "logs", ref))) {
      await mkdir(dirname(log), { recursive: true });
      await writeFile(log, "", { flag: "a" });
      await utimes(log, new Date(), new Date());
    }
  });

const maxLooseRefs = 200;
const maxPacks = 50;

const namesIn = (directory: string): Promise<string[]> => readdir(directory).catch(() => []);

/**
 * Fetches and jobs leave loose refs, and the next one reads all refs: packed, 5,000 of them cost a tenth of the time.
 * Each fetch and save leaves a pack, and git looks through all: they become one, with what no ref reaches (worktrees borrow it).
 */
export const tidy = async (
  locked: LockedContext,
  gitDir: string,
  repack = (): Promise<unknown> => runGit(locked, gitDir, ["repack", "--quiet", "-d", "--geometric=2"]),
): Promise<void> => {
  const refs = await readdir(join(gitDir, "refs"), { recursive: true }).catch(() => []);
  if (refs.length >= maxLooseRefs)
    await withoutLeftovers(locked.lost, gitDir, () => runGit(locked, gitDir, ["pack-refs", "--all"]));
  const packs = (await namesIn(join(gitDir, "objects/pack"))).filter((name) => name.endsWith(".pack"));
  if (packs.length > maxPacks) await withoutLeftovers(locked.lost, gitDir, repack);
};

/** Keeps `saved.git` whole after a fetch, under the lock: packs it anew when its bases are others now, or it has many packs. */
export const careForSaved = async (
  locked: LockedContext,
  { url, gitDir: cacheDir }: CachedRepo,
  { isForced = false } = {},
): Promise<void> => {
  const saved = savedDirOf(cacheDir);
  if (!existsSync(saved)) return;
  await restoreSaved(locked, cacheDir, url);
  const lasting = await remoteIds(cacheDir, { lasting: true });
  const remote = [...lasting].toSorted().join("\n");
  const known = join(saved, "whole-with");
  const before = await readRefs(saved, ["refs/bases"]);
  const commits = [...(await readRefs(saved, savedRefs)).values()];
  const isKnown = !isForced && (await textOf(known)) === remote;
  const bases = isKnown ? before : await basesOf(locked, saved, { commits, lasting });
  const isOther = new Set(bases.keys()).symmetricDifference(before).size > 0;
  if (isForced || isOther) await packAnew(locked, saved, { lasting });
  else await tidy(locked, saved, () => packAnew(locked, saved, { lasting }));
  await replace(known, remote);
};

/** Packs all saved work as one. `lenders`: it is damaged, and they may have what it lacks. Resolves to the refs that are lost. */
export const packAnew = async (
  locked: LockedContext,
  saved: string,
  { lasting, lenders }: { lasting: Set<string>; lenders?: string[] },
): Promise<string[]> => {
  const objects = join(saved, "objects");
  const earlier = await namesIn(join(objects, "pack"));
  const refs = [...(await readRefs(saved, savedRefs))];
  // Git reads none that are garbage.
  if (lenders !== undefined) await writeRefs(saved, new Map(refs), { durable: true });
  const ids = [...new Set(refs.map(([, id]) => id))];
  const packs = new Set<string>();
  const bringing = { where: saved, lenders: lenders ?? [], without: lasting, into: saved, packs };
  const bring = lenders === undefined ? bringObjects : bringReadable;
  const unread = new Set(await withoutLeftovers(locked.lost, saved, () => bring(locked, ids, bringing)));
  const commits = ids.filter((id) => !unread.has(id));
  const bases = await basesOf(locked, saved, { commits, lasting });
  await writeRefs(saved, new Map([...refs.filter(([, id]) => !unread.has(id)), ...bases]), { durable: true });
  for (const name of earlier)
    if (!packs.has(name.replace(/\..*/, ""))) await rm(join(objects, "pack", name), { force: true });
  for (const name of await namesIn(objects))
    if (/^[0-9a-f]{2}$/.test(name)) await rm(join(objects, name), { recursive: true, force: true });
  return refs.flatMap(([name, id]) => (unread.has(id) ? [name] : []));
};
