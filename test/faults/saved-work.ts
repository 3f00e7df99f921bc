import { git } from "../remote.ts";

/** Whether a file is in a commit that the ref leads to: a later salvage of the job may have another tree, and keeps it behind. */
export const isSaved = async (repository: string, ref: string, file: string): Promise<boolean> => {
  const asked = ["log", "--full-history", "--max-count=1", "--format=%H", ref, "--", file];
  const found = await git(repository, ...asked).catch((error: unknown) => {
    if (/unknown revision|bad revision/.test(String(error))) return "";
    throw error;
  });
  return found !== "";
};
