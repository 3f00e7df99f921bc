import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { withoutWaiting } from "../lib/without-waiting.ts";

/** Under this directory of refs stands what was pushed since the last fetch, which tells more: it clears it. */
const pushedRefs = "refs/service/pushed";

/**
 * Not among the remote's branches: those are what salvage does not save, and a job that fails after its push must have its
 * work saved all the same.
 */
export const pushedRef = (branch: string): string => `${pushedRefs}/${branch}`;

/** What is noted at present, by file. */
export const pushNotes = async (gitDir: string): Promise<Map<string, string>> => {
  const entries = await readdir(join(gitDir, pushedRefs), { recursive: true, withFileTypes: true }).catch(
    () => [],
  );
  const notes = new Map<string, string>();
  for (const entry of entries) {
    if (entry.isDirectory()) continue;
    const file = join(entry.parentPath, entry.name);
    notes.set(file, await textOf(file));
  }
  return notes;
};

/** Takes away those that still say what they said: another process may have pushed meanwhile. */
export const dropNotes = async (notes: Map<string, string>): Promise<void> => {
  for (const [file, text] of notes)
    if ((await textOf(file)) === text) await rm(file, { recursive: true, force: true });
};

const textOf = (file: string): Promise<string> =>
  readFile(file, { encoding: "latin1", flag: withoutWaiting.read }).catch(() => "");
