import { lstat, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { syncDirectory, temporarySuffix, writeFileAtomic } from "../lib/atomic-file.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import type { Worktree } from "./repos.ts";
import { cacheGitDir, type GitContext } from "./git-context.ts";

const sha = z.string().regex(/^[0-9a-f]{40}$/);

const key = z.string().regex(/^[0-9a-f]{12}$/);

const most = z.int().positive().nullable();

const Facts = z.object({
  worktreeId: z.string(),
  repoUrl: z.string(),
  repoKey: key.nullable(),
  branch: z.string(),
  baseRef: z.string(),
  baseSha: sha.nullable(),
  warnings: z.array(z.string()),
  submodules: z.array(key).optional(),
  limits: z.object({ memoryBytes: most, processes: most }).optional(),
});

/**
 * The file beside a worktree that names its owner. It lies outside the directory that the agent works in. It is written
 * before the directory is made and removed after it: a directory without one is never touched.
 */
const OwnerFile = z.object({
  version: z.literal(2),
  /** False: the checkout is not finished, so no agent has worked in it. */
  ready: z.boolean(),
  /** Links of the repository that were left out of the checkout because they point out of it. */
  leftOut: z.array(z.string()),
  worktree: Facts,
  /** The instance that owns it. */
  instance: z.string(),
  since: z.iso.datetime(),
  /** Throwaway worktrees only: the worktree whose state it has and whose objects it borrows. */
  source: z.string().nullable(),
  /** Content that cannot be saved, because of which the directory is kept: `nested repository at vendor/x`. */
  kept: z.array(z.string()),
  /** New work of agents that git ignores, as bytes, one character each. */
  ignored: z.array(z.string()),
  /** The commit of its branch that the service pushed last, as the remote showed it. */
  pushed: sha.nullable(),
});

export type OwnerFile = Omit<z.infer<typeof OwnerFile>, "worktree" | "since"> & {
  worktree: Worktree;
  since: Date;
};

const ownerDirectory = ({ settings }: GitContext): string => join(settings.worktreeRoot, ".owned");

const suffix = ".json";

const ownerFile = (context: GitContext, id: string): string =>
  join(ownerDirectory(context), `${id}${suffix}`);

/** Ids become names of files. */
export const isWorktreeId = (id: string): boolean => /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(id);

/** @throws Error when it is no id, because the path might lead anywhere */
export const worktreePath = ({ settings }: GitContext, id: string): string => {
  if (!isWorktreeId(id)) throw new Error(`"${id}" is no worktree id`);
  return join(settings.worktreeRoot, id);
};

/** The paths follow from id and repository. They are never read from a file. */
export const locate = (context: GitContext, id: string, repoKey: string | null) => {
  const path = worktreePath(context, id);
  const cacheDir = cacheGitDir(context, repoKey);
  return { path, gitDir: join(path, ".git"), ownDir: ownDirectory(context, id), cacheDir };
};

export const ownDirectory = (context: GitContext, id: string): string =>
  join(ownerDirectory(context), `${id}.git`);

/** Null: there is none, or it is not valid. Whatever is at the worktree's path is then not the service's. */
export const readOwner = async (context: GitContext, id: string): Promise<OwnerFile | null> => {
  if (!isWorktreeId(id)) return null;
  const file = ownerFile(context, id);
  const stats = await lstat(file).catch(unlessExhausted);
  const mark = stats && `${stats.ino} ${stats.mtimeMs} ${stats.size}`;
  const known = lastRead.get(file);
  const facts = known !== undefined && known.mark === mark ? known.facts : await readFacts(file);
  if (facts === null || facts.worktree.worktreeId !== id) return null;
  if (lastRead.size >= mostRead) lastRead.clear();
  if (mark !== null) lastRead.set(file, { mark, facts });
  const { worktree, since } = facts;
  const paths = locate(context, id, worktree.repoKey);
  return {
    ...facts,
    since: new Date(since),
    worktree: { ...worktree, warnings: [...worktree.warnings], ...paths },
  };
};

/** By path. A list of worktrees reads each of them. */
const lastRead = new Map<string, { mark: string; facts: z.infer<typeof OwnerFile> }>();
const mostRead = 10_000;

const readFacts = async (file: string): Promise<z.infer<typeof OwnerFile> | null> => {
  const text = await readFile(file, { encoding: "utf8", flag: nonBlocking.read }).catch(unlessExhausted);
  // A foreign or unfinished file.
  const value: unknown = await new Response(text).json().catch(() => null);
  return OwnerFile.safeParse(value).data ?? null;
};

/** With the machine at its limits, nothing is known about the file. */
const unlessExhausted = (error: unknown): null => {
  if (!(error instanceof Error && "code" in error) || exhausted.has(String(error.code))) throw error;
  return null;
};

const exhausted = new Set(["EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EIO", "ESTALE", "ETIMEDOUT"]);

type OwnerFacts = Pick<OwnerFile, "ready" | "leftOut" | "worktree" | "source"> &
  Partial<Pick<OwnerFile, "kept" | "ignored" | "pushed" | "since">>;

/** Makes this instance the owner of the worktree. Durable when it resolves. */
export const writeOwner = async (context: GitContext, { worktree, ...facts }: OwnerFacts): Promise<void> => {
  const { path: _path, gitDir: _gitDir, ownDir: _ownDir, cacheDir: _cacheDir, ...named } = worktree;
  const usual = { kept: [], ignored: [], pushed: null, since: new Date() };
  const file = { version: 2, ...usual, ...facts, worktree: named, instance: context.settings.podName };
  await mkdir(ownerDirectory(context), { recursive: true });
  await writeFileAtomic(ownerFile(context, worktree.worktreeId), `${JSON.stringify(file, null, 2)}\n`);
};

export const removeOwner = async (context: GitContext, id: string): Promise<void> => {
  await rm(ownerFile(context, id), { force: true });
  await syncDirectory(ownerDirectory(context));
};

export const listOwned = async (context: GitContext): Promise<string[]> => {
  const names = (await namesIn(ownerDirectory(context))).filter((name) => name.endsWith(suffix));
  return names
    .map((name) => name.slice(0, -suffix.length))
    .filter(isWorktreeId)
    .toSorted();
};

/** The owner files of all worktrees under the root. */
export const readOwners = async (context: GitContext): Promise<OwnerFile[]> => {
  const all = await Promise.all((await listOwned(context)).map((id) => readOwner(context, id)));
  return all.filter((owned) => owned !== null);
};

/** Removes unfinished owner files that a kill of the service left. */
export const removeTornOwners = async (context: GitContext): Promise<void> => {
  for (const name of await namesIn(ownerDirectory(context)))
    if (name.endsWith(temporarySuffix)) await rm(join(ownerDirectory(context), name), { force: true });
};

/** Names of a directory's entries; none when it is missing. */
export const namesIn = (directory: string): Promise<string[]> =>
  readdir(directory).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  });
