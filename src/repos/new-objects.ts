import { readRefs, remoteRefs } from "./clone.ts";
import { attempt } from "./failure.ts";
import { type GitContext, runGit } from "./git-context.ts";
import { RepoError, type Worktree } from "./repos.ts";

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
    const { ownDir, cacheDir, baseSha } = worktree;
    const there = [baseSha, ...(await readRefs(cacheDir, remoteRefs)).values()].filter((id) => id !== null);
    const input = [asked.tip, ...new Set(there.map((id) => `^${id}`)), ""].join("\n");
    const run = (args: string[], call: object) =>
      runGit(context, ownDir, args, { encoding: "latin1", ...call });
    const { stdout } = await run(["rev-list", "--objects", "--stdin"], { input });
    const format = "--batch=%(objectname) %(objecttype) %(objectsize) %(rest)";
    const names = Buffer.from(stdout, "latin1");
    await run(["cat-file", "--buffer", format], { input: names, onOutput: splitting(asked) });
  });

/** Takes what `cat-file --batch` prints apart: a line about each object, its content, and a line break. */
const splitting = ({ maxBytes, read }: NewObjects): ((piece: string) => void) => {
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
