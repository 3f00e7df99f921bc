import { readFile, rm } from "node:fs/promises";
import { syncDirectory, writeFileAtomic } from "../../lib/atomic-file.ts";
import { withoutWaiting } from "../../lib/without-waiting.ts";
import { storeUnavailable } from "./store-unavailable.ts";

/** What a file store does with one of its files. Whatever the disk refuses is `store_unavailable`. */
export const filesOf = (directory: string) => {
  const guarded = async <Value>(work: () => Promise<Value>): Promise<Value> => {
    try {
      return await work();
    } catch (cause) {
      throw storeUnavailable(directory, cause);
    }
  };

  return {
    /** Null: it is not there. */
    read: (path: string): Promise<string | null> =>
      guarded(async () => {
        try {
          return await readFile(path, { encoding: "utf8", flag: withoutWaiting.read });
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          if (code === "ENOENT" || code === "EISDIR") return null;
          throw error;
        }
      }),
    write: (path: string, value: unknown): Promise<void> =>
      guarded(() => writeFileAtomic(path, JSON.stringify(value))),
    remove: (path: string): Promise<void> =>
      guarded(async () => {
        await rm(path, { force: true });
        await syncDirectory(directory);
      }),
  };
};
