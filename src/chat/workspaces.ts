import { mkdir, readdir, rmdir, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../lib/remove-tree.ts";

/** The working directories of conversations: `{root}/{agent}/{session}`. */
export const createWorkspaces = ({ root, agent, now }: { root: string; agent: string; now: () => Date }) => {
  const home = join(root, agent);
  const touch = async (path: string): Promise<void> => utimes(path, now(), now());
  return {
    /** Makes their parent directory. */
    prepare: async (): Promise<void> => void (await mkdir(home, { recursive: true, mode: 0o700 })),
    pathOf: (sessionId: string): string => join(home, sessionId),
    /** Makes the directory if it is missing, and marks it as used now. */
    use: async (path: string): Promise<void> => {
      await touch(path).catch(async () => void (await mkdir(path, { recursive: true, mode: 0o700 })));
    },
    /**
     * Removes those not used since `before` (ms since the epoch), and empty ones not used for a minute; except `kept`.
     * Resolves to how many.
     */
    removeUnused: async (before: number, kept: ReadonlySet<string>): Promise<number> => {
      const names = await readdir(home).catch(() => []);
      let removed = 0;
      for (const name of names.filter((each) => sessionForm.test(each))) {
        const path = join(home, name);
        const usedAt = kept.has(path) ? null : ((await stat(path).catch(() => null))?.mtimeMs ?? null);
        if (usedAt === null || usedAt > Math.max(before, now().getTime() - emptyMs)) continue;
        // One that stays (it is not empty, a mount, a file that nobody may remove) must not keep those after it.
        await (usedAt < before ? removeTree(path) : rmdir(path)).then(
          () => (removed += 1),
          () => undefined,
        );
      }
      return removed;
    },
  };
};

export type Workspaces = ReturnType<typeof createWorkspaces>;

const emptyMs = 60_000;

/** Only directories made here are ever removed. */
const sessionForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
