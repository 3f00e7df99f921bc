import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** The cached clone that a worktree borrows its objects from, and where its work is saved. */
export const cachedCloneOf = async (worktreePath: string | null): Promise<string> =>
  dirname(
    (await readFile(join(String(worktreePath), ".git/objects/info/alternates"), "utf8")).split("\n", 1)[0] ??
      "",
  );
