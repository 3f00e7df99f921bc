import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { savedDirOf } from "../src/repos/repos.ts";

/** The cached clone that a worktree borrows its objects from. */
export const cachedCloneOf = async (worktreePath: string | null): Promise<string> =>
  dirname(
    (await readFile(join(String(worktreePath), ".git/objects/info/alternates"), "utf8")).split("\n", 1)[0] ??
      "",
  );

/** Where its work is saved. */
export const savedCloneOf = async (worktreePath: string | null): Promise<string> =>
  savedDirOf(await cachedCloneOf(worktreePath));
