import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { failureOf } from "../kv/failure.ts";
import { temporarySuffix, writeFileAtomic } from "../lib/atomic-file.ts";
import type { Log } from "../lib/log.ts";

type Options<Item> = {
  directory: string;
  /** Name of the item's file, without a suffix. */
  nameOf: (item: Item) => string;
  /** Null or an exception: the text is none. */
  parse: (text: string) => Item | null;
  /** For the log: what an item is. */
  what: string;
  log: Log;
};

export type Spool<Item> = {
  /** Durable when it resolves. Never rejects: an item that cannot be kept on disk is still in memory. */
  add: (item: Item) => Promise<void>;
  drop: (item: Item) => Promise<void>;
  /**
   * Delivers each item that is there; none waits for another. What can never be delivered is set aside with a warning.
   * Rejects with a failure of the store: what it concerns stays.
   */
  replay: (deliver: (item: Item) => Promise<void>) => Promise<void>;
};

/** Items that the store does not take at present: a file each on this instance's disk, until it does. */
export const openSpool = async <Item>(options: Options<Item>): Promise<Spool<Item>> => {
  const { directory, nameOf, parse, what, log } = options;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const pathOf = (item: Item): string => join(directory, `${nameOf(item)}${suffix}`);
  const drop = (item: Item): Promise<void> => rm(pathOf(item), { force: true });

  const setAside = async (path: string, err: unknown): Promise<void> => {
    const aside = path.replace(/\.json$/, ".aside");
    log.warn({ err, file: aside }, `${what} is set aside: it can never be stored`);
    await rename(path, aside);
  };

  const read = async (path: string): Promise<Item> => {
    const item = parse(await readFile(path, "utf8"));
    if (item === null || pathOf(item) !== path) throw new Error("the file is torn, or holds something else");
    return item;
  };

  return {
    add: async (item) => {
      await writeFileAtomic(pathOf(item), JSON.stringify(item)).catch((err: unknown) =>
        log.error({ err, file: pathOf(item) }, `${what} cannot be kept on disk either`),
      );
    },
    drop,
    replay: async (deliver) => {
      const failures: unknown[] = [];
      for (const name of await readdir(directory)) {
        const path = join(directory, name);
        if (name.endsWith(temporarySuffix)) await rm(path, { force: true });
        if (!name.endsWith(suffix)) continue;
        try {
          const item = await read(path);
          await deliver(item);
          await drop(item);
        } catch (err) {
          // `errno`: the file system's.
          if (isOfStore(err) || (err instanceof Error && "errno" in err)) failures.push(err);
          else await setAside(path, err);
        }
      }
      if (failures.length > 0) throw failures[0];
    },
  };
};

const suffix = ".json";

/** Whether the store, and not the item, caused a failure. */
export const isOfStore = (error: unknown): boolean =>
  error instanceof AggregateError ? error.errors.some(isOfStore) : failureOf(error) !== "value";
