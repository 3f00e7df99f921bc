import { RepoError, type CachedRepo } from "./repos.ts";
import { runGit, gitDirVariables, type Room } from "./room.ts";

/** Entries of a commit that a checkout has to look at twice. Paths are bytes, one character each (latin1). */
export type SpecialEntries = { links: string[]; submodules: string[]; attributes: string[] };

type Listing = { repo: CachedRepo; commit: string; signal: AbortSignal };

/**
 * Finds symbolic links, submodules and `.gitattributes` files in a commit. To be called before it is checked out: a few
 * small trees that contain each other can stand for any number of files.
 * @throws RepoError `worktree_failed` when the commit has more than a checkout may
 */
export const specialEntries = async (room: Room, listing: Listing): Promise<SpecialEntries> => {
  const { maxRepoFiles, maxRepoBytes } = room.settings;
  const found: SpecialEntries = { links: [], submodules: [], attributes: [] };
  let files = 0;
  await listTree(room, listing, "-t", (entry, path) => {
    files += 1;
    if (files > maxRepoFiles)
      throw tooLarge(listing, `more than ${maxRepoFiles} files and directories`, "SERVICE_MAX_REPO_FILES");
    if (entry.startsWith("120000")) found.links.push(path);
    else if (entry.startsWith("160000")) found.submodules.push(path);
    else if (/(^|\/)\.gitattributes$/.test(path)) found.attributes.push(path);
  });
  let bytes = 0;
  // Apart from the first, because git looks each size up: where the files are too many that takes long.
  await listTree(room, listing, "--long", (entry) => {
    bytes += Number(entry.slice(entry.lastIndexOf(" ") + 1)) || 0;
    if (bytes > maxRepoBytes)
      throw tooLarge(listing, `more than ${maxRepoBytes} bytes of files`, "SERVICE_MAX_REPO_BYTES");
  });
  return found;
};

/** Longest path that the system takes, in bytes. */
const longestPath = 4096;

const listTree = async (
  room: Room,
  { repo, commit, signal }: Listing,
  option: string,
  take: (entry: string, path: string) => void,
): Promise<void> => {
  let begun = "";
  await runGit(room, ["ls-tree", "-r", option, "-z", "--full-tree", commit], {
    variables: gitDirVariables(repo.gitDir),
    encoding: "latin1",
    onOutput: (piece) => {
      const [first = "", ...rest] = piece.split("\0");
      const entries = [`${begun}${first}`, ...rest];
      begun = entries.pop() ?? "";
      if (begun.length > longestPath + 100)
        throw new RepoError(
          "worktree_failed",
          `The repository ${repo.url} has a path of more than ${longestPath} bytes.`,
        );
      for (const entry of entries) {
        const tab = entry.indexOf("\t");
        take(entry.slice(0, tab), entry.slice(tab + 1));
      }
    },
    signal,
  });
};

const tooLarge = ({ repo }: Listing, what: string, variable: string): RepoError =>
  new RepoError(
    "worktree_failed",
    `The repository ${repo.url} has ${what}; raise ${variable} if it is to be checked out.`,
  );

/** The bytes that a path from git stands for. */
export const pathBytes = (path: string): Buffer => Buffer.from(path, "latin1");

/** For messages. */
export const shownPath = (path: string): string =>
  pathBytes(path)
    .toString()
    .replaceAll(/\p{Cc}/gu, "?");
