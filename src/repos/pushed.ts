import { lstat, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { withoutWaiting } from "../lib/without-waiting.ts";
import { commitOf } from "./base.ts";
import { present } from "./hidden-changes.ts";
import { readIndexFlags } from "./index-flags.ts";
import { readMarker } from "./marker.ts";
import { pushedRef } from "./push-notes.ts";
import { pastPipes } from "./remove-pipes.ts";
import { beside, repositoriesIn } from "./repositories-inside.ts";
import type { Worktree } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";
import { refsOfItsOwn } from "./staged.ts";
import { hasDirectory, reclaim, textOf, worktreeVariables } from "./worktree-links.ts";

/**
 * See the port. Says false whenever it cannot be sure: the work is then looked at, or saved, before anything is removed.
 * Rejects only with the signal's reason.
 */
export const isPushed = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<boolean> => {
  try {
    // Histories that are not ours to look into: whether anybody else has them is not known.
    if (Object.values(await beside(room, worktree)).some((names) => names.length > 0)) return false;
    if (worktree.repoKey === null) return await isEmpty(room, worktree, signal);
    if ((await refsOfItsOwn(room, worktree, signal)).length > 0) return false;
    const tip = (await hasDirectory(worktree))
      ? await cleanTip(room, worktree, signal)
      : await tipWithoutDirectory(room, worktree, signal);
    return tip === "none" || (tip !== null && (await remoteHas(room, worktree, tip, signal)));
  } catch {
    signal.throwIfAborted();
    return false;
  }
};

/** A commit; "none": the branch has no commit; null: there is something that the branch does not hold. */
type Tip = string | null;

const cleanTip = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<Tip> => {
  const { path, branch } = worktree;
  // An agent that made a repository of its own has commits that nobody else has.
  if ((await lstat(join(path, ".git"))).isFile() === false) return null;
  await reclaim(room, worktree);
  if (await hidesSomething(room, worktree)) return null;
  // Repositories at the places of submodules are not looked into: their own configuration would be believed.
  const args = ["status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--no-renames"];
  const choice = ["--untracked-files=normal", "--ignore-submodules=dirty"];
  const { stdout, stderr } = await pastPipes(path, () =>
    runGit(room, [...args, ...choice], { variables: worktreeVariables(worktree), signal }),
  );
  const lines = stdout.split("\n").filter((line) => line !== "");
  // A word on the standard error: a directory that could not be read.
  if (stderr !== "" || lines.some((line) => !line.startsWith("# "))) return null;
  const told = (name: string): string | undefined =>
    lines.find((line) => line.startsWith(`# branch.${name} `))?.slice(`# branch.${name} `.length);
  if (told("head") !== branch) return null;
  const oid = told("oid") ?? null;
  return oid === "(initial)" ? "none" : oid;
};

/** Whether the index keeps git from looking at something in the directory. */
const hidesSomething = async (room: Room, { gitDir, path, worktreeId }: Worktree): Promise<boolean> => {
  const flags = await readIndexFlags(join(gitDir, "index"));
  // An empty repository has no index yet.
  if (flags === null) return (await lstat(join(gitDir, "index")).catch(() => null)) !== null;
  const leftOut = (await readMarker(room, worktreeId))?.leftOut ?? [];
  const known = new Set(leftOut);
  if (flags.assumed.length > 0 || flags.skipped.some((name) => !known.has(name))) return true;
  if ((await present(path, leftOut)).length > 0) return true;
  if ((await repositoriesIn(path, flags.directories)).length > 0) return true;
  for (const name of await present(path, flags.submodules)) {
    const at = Buffer.concat([Buffer.from(`${path}/`), Buffer.from(name, "latin1")]);
    if ((await readdir(at)).length > 0) return true;
  }
  return false;
};

/** What was checked out or staged outlives the directory. */
const tipWithoutDirectory = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<Tip> => {
  const { gitDir, branch } = worktree;
  const tip = await branchTip(room, worktree, signal);
  // Half removed: nothing is left of it but the branch.
  if ((await lstat(gitDir).catch(() => null)) === null) return tip;
  await reclaim(room, worktree);
  if ((await textOf(join(gitDir, "HEAD"))) !== `ref: refs/heads/${branch}\n`) return null;
  if (tip === "none" || tip === null || (await lstat(join(gitDir, "index")).catch(() => null)) === null)
    return tip;
  const variables = worktreeVariables(worktree);
  // Fails when there is a difference.
  await runGit(room, ["diff-index", "--cached", "--quiet", "--no-ext-diff", tip], { variables, signal });
  return tip;
};

const branchTip = async (
  room: Room,
  { commonDir: gitDir, branch }: Worktree,
  signal: AbortSignal,
): Promise<Tip> => {
  const name = `refs/heads/${branch}`;
  return (await looseRef(gitDir, name)) ?? (await commitOf(room, { gitDir, name, signal })) ?? "none";
};

/** Contained in the base, or in a branch that the remote had when it was last asked. */
const remoteHas = async (
  room: Room,
  { commonDir: gitDir, baseSha, branch }: Worktree,
  commit: string,
  signal: AbortSignal,
): Promise<boolean> => {
  if (commit === baseSha) return true;
  for (const known of [pushedRef(branch), `refs/remotes/origin/${branch}`])
    if ((await looseRef(gitDir, known)) === commit) return true;
  const args = [
    "for-each-ref",
    "--count=1",
    `--contains=${commit}`,
    "refs/remotes/origin",
    pushedRef(branch),
  ];
  return (await runGit(room, args, { variables: gitDirVariables(gitDir), signal })).stdout !== "";
};

/** Most refs that are asked for are files of their own: reading one saves a process. */
const looseRef = async (gitDir: string, name: string): Promise<string | null> => {
  const text = await readFile(join(gitDir, name), { encoding: "latin1", flag: withoutWaiting.read }).catch(
    () => "",
  );
  return /^[0-9a-f]{40}\n$/.test(text) ? text.trim() : null;
};

/** A worktree without a repository has nowhere to be pushed to. */
const isEmpty = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<boolean> => {
  const { path, commonDir } = worktree;
  if ((await hasDirectory(worktree)) && (await readdir(path)).some((name) => name !== ".git")) return false;
  const own = await lstat(join(path, ".git")).catch(() => null);
  if (own?.isDirectory() === true) return false;
  if ((await lstat(commonDir).catch(() => null)) === null) return true;
  const { stdout } = await runGit(room, ["for-each-ref", "--count=1"], {
    variables: gitDirVariables(commonDir),
    signal,
  });
  return stdout === "";
};
