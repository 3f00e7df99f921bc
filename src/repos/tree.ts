import { runGit, gitDirVariables, type Room } from "./room.ts";

/** Entries of a commit that a checkout has to look at twice. Paths are bytes, one character each (latin1). */
export type SpecialEntries = { links: string[]; submodules: string[]; attributes: string[] };

/** Finds symbolic links, submodules and `.gitattributes` files in a commit. */
export const specialEntries = async (
  room: Room,
  { gitDir, commit, signal }: { gitDir: string; commit: string; signal: AbortSignal },
): Promise<SpecialEntries> => {
  const { stdout } = await runGit(room, ["ls-tree", "-r", "-z", "--full-tree", commit], {
    variables: gitDirVariables(gitDir),
    maxOutputBytes: 256 * 1024 * 1024,
    encoding: "latin1",
    signal,
  });
  const found: SpecialEntries = { links: [], submodules: [], attributes: [] };
  for (const entry of stdout.split("\0")) {
    const path = entry.slice(entry.indexOf("\t") + 1);
    if (entry.startsWith("120000")) found.links.push(path);
    else if (entry.startsWith("160000")) found.submodules.push(path);
    else if (entry.endsWith(".gitattributes") && /(^|\/)\.gitattributes$/.test(path))
      found.attributes.push(path);
  }
  return found;
};

/** The bytes that a path from git stands for. */
export const pathBytes = (path: string): Buffer => Buffer.from(path, "latin1");

/** For messages. */
export const shownPath = (path: string): string =>
  pathBytes(path)
    .toString()
    .replaceAll(/\p{Cc}/gu, "?");
