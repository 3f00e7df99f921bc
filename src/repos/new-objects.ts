import { attempt } from "./failure.ts";
import { type GitContext, runGit } from "./git-context.ts";
import { pathBytes } from "./path-bytes.ts";
import { RepoError, type Worktree } from "./repos.ts";
import { remoteIds } from "./saved.ts";

export type NewObjects = {
  tip: string;
  /** More than so many bytes are refused. */
  maxBytes: number;
  /** Gets each object in pieces, whose characters are its bytes; `where`: a few words. An error that it throws is thrown. */
  read: (piece: string, where: string, isFirst: boolean) => void;
};

/** Reads the objects that a push of the commit would bring: messages, names of files, contents, targets of links. */
export const readNewObjects = (context: GitContext, worktree: Worktree, asked: NewObjects): Promise<void> =>
  attempt(context, "push_failed", "read the commits that are to be pushed", async () => {
    const listed = await listNew(context, worktree, ["rev-list", "--objects", asked.tip]);
    await readObjects(context, worktree.ownDir, { ...asked, input: pathBytes(listed) });
  });

/** Each file, no link, that such a push puts at a path, also if it is known elsewhere: an id, a space and a path in bytes. */
export const listNewFiles = async (context: GitContext, worktree: Worktree, tip: string) => {
  const log = "log --format= --raw --root -c -r -z --no-renames --no-abbrev".split(" ");
  const raw = await listNew(context, worktree, [...log, tip]);
  // A merge has the modes and ids of all its parents before its own.
  const entries = raw.matchAll(/:(?:\d{6} )+(\d{3})\d{3} (?:\w{40} )+(\w{40}) [A-Z]+\0([^\0]+)\0/g);
  return Array.from(entries).flatMap(([, kind, id, path]) => (kind === "100" ? [`${id} ${path}`] : []));
};

/** Lists the commits that a push would bring. */
const listNew = async (context: GitContext, { ownDir, cacheDir, baseSha }: Worktree, list: string[]) => {
  const there = [baseSha ?? [], ...(await remoteIds(cacheDir))].flat();
  const input = there.map((id) => `^${id}\n`).join("");
  return (await runGit(context, ownDir, [...list, "--stdin"], { input, encoding: "latin1" })).stdout;
};

/** `input`: a line for each: an id and, of files, a space and a path in bytes. */
export const readObjects = async (
  context: GitContext,
  where: string,
  { input, ...asked }: Omit<NewObjects, "tip"> & { input: Uint8Array },
): Promise<void> => {
  const batch = ["cat-file", "--buffer", "--batch=%(objectname) %(objecttype) %(objectsize) %(rest)"];
  await runGit(context, where, batch, { input, encoding: "latin1", onOutput: splitting(asked) });
};

/** Takes what `cat-file --batch` prints apart: a line about each object, its content, and a line break. */
const splitting = ({ maxBytes, read }: Omit<NewObjects, "tip">): ((piece: string) => void) => {
  let [line, where, bytes, left] = ["", "", 0, 0];
  return (piece) => {
    for (let at = 0; at < piece.length;) {
      const part = left > 0 ? piece.slice(at, at + left) : (/^[^\n]*\n?/.exec(piece.slice(at))?.[0] ?? "");
      at += part.length;
      if (left > 0) {
        read(part, where, false);
        left -= part.length;
        continue;
      }
      line += part;
      const [, id, type, size = "", path = ""] = /^(\S+) (\S+) (\d+) (.*)\n/.exec(line) ?? [];
      if (!line.endsWith("\n")) continue;
      [line, left, bytes] = ["", Number(size) + 1, bytes + Number(size)];
      if (bytes > maxBytes) throw new RepoError("push_failed", tooMuch(maxBytes / 2 ** 30));
      const name = Buffer.from(path, "latin1").toString();
      where =
        type === "blob" ? name : type === "tree" ? `the name of a file in /${name}` : `the commit ${id}`;
      read("", where, true);
    }
  };
};

const tooMuch = (most: number): string =>
  `Nothing was pushed, because the job's commits have more than ${most} GiB of new objects, which is more than is searched for the repository's secrets.\nWhat to do: Have the branch rewritten without large files (svc continue), or remove the secrets of the repository.`;
