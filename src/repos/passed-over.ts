import { present } from "./hidden-changes.ts";
import { runGit, type Room } from "./room.ts";

type Listing = {
  root: string;
  /** They name the index that everything was added to. */
  variables: Record<string, string>;
  signal: AbortSignal;
};

/**
 * What git left out when everything was added: names that it refuses, files that it could not read, directories that it
 * could not open (the topmost that holds them, as it may be too deep to be named). Paths are bytes (latin1).
 */
export const passedOver = async (room: Room, { root, variables, signal }: Listing): Promise<string[]> => {
  const { stdout, stderr } = await list(room, ["--others", "--modified"], { root, variables, signal });
  const paths = stdout.split("\0").filter((path) => path !== "");
  const closed = [...stderr.matchAll(/could not open directory '([^/']+)/g)].map(([, name = ""]) =>
    Buffer.from(name).toString("latin1"),
  );
  const all = [...new Set([...paths.map((path) => path.replace(/\/$/, "")), ...closed])];
  // In an archive a directory stands for all that is in it.
  const tops = all.filter((path) => !closed.some((top) => path.startsWith(`${top}/`)));
  return present(root, tops);
};

/** Files that git ignores, and directories (with a slash at the end) of which it ignores everything. */
export const ignoredPaths = async (room: Room, listing: Listing): Promise<string[]> => {
  const { stdout } = await list(room, ["--others", "--ignored", "--directory"], listing);
  return stdout.split("\0").filter((path) => path !== "");
};

/** Directories without any file that git would add. */
export const emptyDirectories = async (room: Room, listing: Listing): Promise<string[]> => {
  const { stdout } = await list(room, ["--others", "--directory"], listing);
  return stdout
    .split("\0")
    .filter((path) => path.endsWith("/"))
    .map((path) => path.slice(0, -1));
};

/** Takes paths out of the index again that lie at or under some others, given as `ignoredPaths` gives them. */
export const dropPaths = async (
  room: Room,
  { root, ...listing }: Listing,
  under: string[],
): Promise<void> => {
  if (under.length === 0) return;
  const { stdout } = await list(room, ["--cached"], { root, ...listing });
  const isUnder = within(under);
  const found = stdout.split("\0").filter((path) => path !== "" && isUnder(path));
  if (found.length === 0) return;
  const input = Buffer.from(found.map((path) => `${path}\0`).join(""), "latin1");
  await runGit(room, ["update-index", "--force-remove", "-z", "--stdin"], { ...listing, input });
};

/** Whether a path lies at or under some others. */
export const within = (others: string[]): ((path: string) => boolean) => {
  const known = new Set(others);
  return (path) => {
    if (known.has(path)) return true;
    for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1))
      if (known.has(path.slice(0, at + 1))) return true;
    return false;
  };
};

const list = (
  room: Room,
  what: string[],
  { root, variables, signal }: Listing,
): Promise<{ stdout: string; stderr: string }> =>
  runGit(room, ["ls-files", "-z", "--exclude-standard", ...what], {
    cwd: root,
    variables,
    maxOutputBytes: 256 * 1024 * 1024,
    encoding: "latin1",
    signal,
  });
