import { type GitContext, runGit, type Where } from "./git-context.ts";

/** What git has under each name (`main^{commit}`, `{id}:{path}`); null: nothing. */
export const objectsAt = async (context: GitContext, where: Where, names: readonly string[]) => {
  if (names.length === 0) return [];
  const input = names.map((name) => `${name}\n`).join("");
  const { stdout } = await runGit(context, where, ["cat-file", "--batch-check"], { input });
  const lines = stdout.split("\n");
  return names.map((_, nth) => {
    const [, id, type = "", size] =
      /^([0-9a-f]{40}) (commit|tag|tree|blob) (\d+)$/.exec(lines[nth] ?? "") ?? [];
    return id === undefined ? null : { id, type, size: Number(size) };
  });
};
