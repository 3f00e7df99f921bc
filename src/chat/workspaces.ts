import { mkdir, readdir, rmdir, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../lib/remove-tree.ts";

/** The working directories of conversations: `{root}/{agent}/{session}`. */
export type Workspaces = {
  /** Makes their parent directory. */
  prepare: () => Promise<void>;
  pathOf: (sessionId: string) => string;
  /** Makes the directory if it is missing, and marks it as used now. */
  use: (path: string) => Promise<void>;
  /** Removes the directory if it is empty. */
  removeEmpty: (path: string) => Promise<void>;
  /** Removes those not used since `before` (ms since the epoch), except `kept`. Resolves to how many. */
  removeUnused: (before: number, inUse: ReadonlySet<string>) => Promise<number>;
};

type Options = { root: string; agent: string; now: () => Date };

export const createWorkspaces = ({ root, agent, now }: Options): Workspaces => {
  const home = join(root, agent);
  const touch = async (path: string): Promise<void> => utimes(path, now(), now());
  return {
    prepare: async () => {
      await mkdir(home, { recursive: true, mode: 0o700 });
    },
    pathOf: (sessionId) => join(home, sessionId),
    use: async (path) => {
      await touch(path).catch(async () => {
        await mkdir(path, { recursive: true, mode: 0o700 });
      });
    },
    removeEmpty: async (path) => {
      // It is not empty, or missing.
      await rmdir(path).catch(() => undefined);
    },
    removeUnused: async (before, kept) => {
      const names = await readdir(home).catch(() => []);
      let removed = 0;
      for (const name of names.filter((each) => sessionForm.test(each))) {
        const path = join(home, name);
        const unused = !kept.has(path) && ((await stat(path).catch(() => null))?.mtimeMs ?? before) < before;
        if (!unused) continue;
        // One that stays (a mount, a file that nobody may remove) must not keep those after it.
        await removeTree(path).then(
          () => (removed += 1),
          () => undefined,
        );
      }
      return removed;
    },
  };
};

/** Only directories made here are ever removed. */
const sessionForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
