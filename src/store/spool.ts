import { failureOf } from "../kv/failure.ts";
import type { Log } from "../lib/log.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { openFilesRecords } from "./files-records.ts";
import type { Kind } from "./records.ts";

type Options<Item extends object> = {
  directory: string;
  /** Name of the item's file, without a suffix. */
  nameOf: (item: Item) => string;
  parse: Kind<Item>["parse"];
  /** For the log: what an item is. */
  noun: string;
  log: Log;
};

/** Items that the store does not take at present: a file each on this instance's disk, until it does. */
export const openSpool = async <Item extends object>(options: Options<Item>) => {
  const { directory, nameOf, parse, noun, log } = options;
  const warnings = createWarnOnce();
  const isId = (name: string): boolean => /^[\w-][\w.-]*$/.test(name);
  const kind = { noun, key: "", isId, parse, entries: () => [{ index: "all", at: 0 }] };
  const records = await openFilesRecords<Item>(kind, { directory, now: () => new Date(), log });
  const drop = async (item: Item): Promise<void> => void (await records.change(nameOf(item), () => null));

  return {
    /** Durable when it resolves. Never rejects: an item that cannot be kept on disk is still in memory. */
    add: async (item: Item): Promise<void> => {
      await records
        .change(nameOf(item), () => item)
        .catch((err: unknown) => log.error({ err }, `the ${noun} cannot be kept on disk either`));
    },
    drop,
    /**
     * Delivers each item that is there; none waits for another. What cannot be delivered stays, with one warning. Rejects
     * with a failure of the store.
     */
    replay: async (deliver: (item: Item) => Promise<void>): Promise<void> => {
      const failures: unknown[] = [];
      for (const { id } of await records.list("all")) {
        try {
          const item = await records.get(id);
          if (item === null) continue;
          await deliver(item);
          await drop(item);
        } catch (err) {
          if (isOfStore(err)) failures.push(err);
          else
            warnings.once(id, () => log.warn({ err, id }, `the ${noun} cannot be stored; it stays on disk`));
        }
      }
      if (failures.length > 0) throw failures[0];
    },
  };
};

export type Spool<Item extends object> = Awaited<ReturnType<typeof openSpool<Item>>>;

/** Whether the store, and not the item, caused a failure. */
export const isOfStore = (error: unknown): boolean =>
  error instanceof AggregateError ? error.errors.some(isOfStore) : failureOf(error) !== "value";
