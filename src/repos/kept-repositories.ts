import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { pack, unpack } from "./archive.ts";
import { removeTree } from "./remove-tree.ts";
import { beside } from "./repositories-inside.ts";
import type { Snapshot, Worktree } from "./repos.ts";
import type { Room } from "./room.ts";
import { pathBytes } from "./tree.ts";

type Request = { worktree: Worktree; signal: AbortSignal };
type Kept = Snapshot["repositories"];

/** Copies the histories of a worktree's other repositories, to put them back if a reader changes or deletes them. */
export const keepRepositories = async (
  room: Room,
  { worktree, inside, signal }: Request & { inside: string[] },
): Promise<Kept> => copy(room, { worktree, inside, purpose: "kept", signal });

/** Puts back those that differ from what was kept, and removes those that are new. */
export const restoreRepositories = async (
  room: Room,
  { worktree, kept, inside, signal }: Request & { kept: Kept; inside: string[] },
): Promise<void> => {
  const now = await copy(room, { worktree, inside, purpose: "now", signal });
  for (const part of parts) {
    const [was, is] = [kept[part], now[part]];
    await removeArchive(is);
    if (was?.sum !== is?.sum) {
      const directory = part === "inside" ? worktree.path : worktree.gitDir;
      for (const name of new Set([...(was?.names ?? []), ...(is?.names ?? [])]))
        await makeWay(directory, name, was?.names.includes(name) === true);
      if (was !== null) await unpack(room, { directory, file: was.file, signal });
    }
    await removeArchive(was);
  }
};

const parts = ["inside", "submodules"] as const;

const copy = async (
  room: Room,
  { worktree, inside, purpose, signal }: Request & { inside: string[]; purpose: string },
): Promise<Kept> => {
  const { submodules } = await beside(room, worktree);
  const store = async (part: string, directory: string, names: string[]): Promise<Kept["inside"]> => {
    if (names.length === 0) return null;
    // One name for each purpose: what a service that was killed has left is written over by the next.
    const file = join(worktree.gitDir, `service-${purpose}-${part}.tar`);
    await rm(file, { recursive: true, force: true });
    await pack(room, { directory, names, file, signal });
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
    return { file, names, sum: hash.digest("hex") };
  };
  return {
    inside: await store("inside", worktree.path, inside),
    submodules: await store("submodules", worktree.gitDir, submodules),
  };
};

const removeArchive = async (archive: Kept["inside"]): Promise<void> => {
  if (archive !== null) await rm(archive.file, { force: true });
};

/** Nothing is unpacked through a link that a reader put in place of a directory. */
const makeWay = async (root: string, name: string, comesBack: boolean): Promise<void> => {
  const steps = name.split("/");
  for (let count = 1; count < steps.length; count += 1) {
    const at = bytesOf(root, steps.slice(0, count).join("/"));
    const found = await lstat(at).catch(() => null);
    if (found?.isDirectory() === true) continue;
    if (!comesBack) return;
    if (found !== null) await rm(at);
    await mkdir(at);
  }
  const path = bytesOf(root, name);
  // A name that is not UTF-8 cannot be handed to another program.
  if (path.equals(Buffer.from(path.toString()))) await removeTree(path.toString());
  else await rm(path, { recursive: true, force: true });
};

const bytesOf = (root: string, name: string): Buffer =>
  Buffer.concat([Buffer.from(`${root}/`), pathBytes(name)]);
