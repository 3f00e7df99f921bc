import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { temporarySuffix } from "../lib/atomic-file.ts";
import type { Log } from "../lib/log.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { createNotifier } from "../lib/notifier.ts";
import { orAborted, pause } from "../lib/wait.ts";

type Options<Item> = {
  directory: string;
  /** Size of all items together; beyond it the oldest are lost. */
  maxBytes: number;
  /**
   * Takes an item; the id stays the same when an item is tried again. Rejects when it cannot be taken now, and with an
   * error that has `permanent: true` when it never can: then it is set aside.
   */
  deliver: (item: Item, id: string) => Promise<void>;
  /** For the log: what the items are, in the plural. */
  what: string;
  now: () => Date;
  log: Log;
};

export type Spool<Item> = {
  /** Resolves when the item is on disk, or lost. Never rejects. */
  add: (item: Item) => Promise<void>;
  /** Tries for a few seconds to deliver what is left; the next start delivers the rest. */
  close: () => Promise<void>;
};

type File = { id: string; bytes: number };

/**
 * Items that wait on disk until they are delivered: oldest first, but one that fails is passed over, so that no other waits
 * for it. They outlive the process, not a power failure.
 */
export const openSpool = async <Item>(options: Options<Item>): Promise<Spool<Item>> => {
  const { directory, maxBytes, what, now, log } = options;
  const closing = new AbortController();
  const added = createNotifier();
  const losses = createWarnOnce();
  const files = await earlier(directory).catch((err: unknown): File[] => {
    log.error({ err, directory }, `${what} cannot be kept on disk`);
    return [];
  });
  /** Once of each reason, until what waits is delivered again. */
  const lose = (reason: string, err?: unknown): void =>
    losses.once(reason, () => log.warn({ err }, `${what} are lost: ${reason}`));
  let bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  let count = 0;
  const pathOf = ({ id }: Pick<File, "id">): string => join(directory, `${id}${suffix}`);

  const remove = async (file: File): Promise<void> => {
    const at = files.indexOf(file);
    if (at === -1) return;
    files.splice(at, 1);
    bytes -= file.bytes;
    if (failing.delete(file) && failing.size === 0) log.info(`${what} are delivered again`);
    await rm(pathOf(file), { force: true }).catch((err: unknown) => log.debug({ err }, "a file stays"));
  };

  const add = async (item: Item): Promise<void> => {
    count += 1;
    // Names sort by age.
    const id = [
      String(now().getTime()).padStart(14, "0"),
      String(count).padStart(10, "0"),
      randomUUID(),
    ].join("-");
    const text = JSON.stringify(item);
    const temporary = `${pathOf({ id })}${temporarySuffix}`;
    try {
      await writeFile(temporary, text, { mode: 0o600 });
      await rename(temporary, pathOf({ id }));
    } catch (err) {
      await rm(temporary, { force: true }).catch(() => undefined);
      return lose(unwritable, err);
    }
    files.push({ id, bytes: Buffer.byteLength(text) });
    bytes += Buffer.byteLength(text);
    for (let oldest = files[0]; oldest !== undefined && bytes > maxBytes; [oldest] = files) {
      await remove(oldest);
      lose(tooMany);
    }
    added.notify("");
  };

  const read = async (file: File): Promise<Item> => {
    const text = await readFile(pathOf(file), "utf8");
    try {
      return JSON.parse(text) as Item;
    } catch (cause) {
      throw Object.assign(new Error("it is torn", { cause }), { permanent: true });
    }
  };

  /** Keeps it for who looks into it, out of the way of the others. */
  const setAside = async (file: File, err: unknown): Promise<void> => {
    const aside = join(directory, `${file.id}${asideSuffix}`);
    await rename(pathOf(file), aside).catch(() => undefined);
    log.warn({ err, file: aside }, `some ${what} are set aside: they can never be delivered`);
    await removeOldest(directory).catch(() => undefined);
  };

  /** Files whose last try failed. */
  const failing = new Set<File>();

  /** Whether it waits no longer. */
  const deliver = async (file: File): Promise<boolean> => {
    try {
      await options.deliver(await read(file), file.id);
      for (const reason of [unwritable, tooMany]) losses.clear(reason);
    } catch (err) {
      // Lost meanwhile, because too many wait.
      if (!files.includes(file)) return true;
      if (!isPermanent(err)) {
        if (failing.size > 0) log.debug({ err }, `${what} still cannot be delivered`);
        else
          log.warn({ err }, `${what} cannot be delivered at present; they are kept on disk and tried again`);
        failing.add(file);
        return false;
      }
      await setAside(file, err);
    }
    await remove(file);
    return true;
  };

  const deliverAll = async (): Promise<void> => {
    let [at, wait] = [0, shortestPause];
    for (;;) {
      const file = files[at] ?? files[(at = 0)];
      if (file === undefined) {
        if (closing.signal.aborted) return;
        await added.waitFor("", closing.signal);
      } else if (await deliver(file)) wait = shortestPause;
      else {
        if (closing.signal.aborted) return;
        at = files.indexOf(file) + 1;
        // Where one alone fails it may be at fault itself: the next that comes is tried at once.
        const wakeUp = AbortSignal.any([closing.signal, AbortSignal.timeout(wait)]);
        await (failing.size === 1 ? added.waitFor("", wakeUp) : pause(wait, closing.signal));
        wait = Math.min(2 * wait, longestPause);
      }
    }
  };
  const delivering = deliverAll();

  return {
    add,
    close: async () => {
      closing.abort();
      // The rest is for the next start.
      await orAborted(delivering, AbortSignal.timeout(closeMs)).catch(() => undefined);
    },
  };
};

const suffix = ".json";
const asideSuffix = ".aside";

/** Most files that stay set aside. */
const maxAside = 100;

const removeOldest = async (directory: string): Promise<void> => {
  const names = (await readdir(directory)).filter((name) => name.endsWith(asideSuffix)).toSorted();
  for (const name of names.slice(0, -maxAside)) await rm(join(directory, name), { force: true });
};

const shortestPause = 250;
const longestPause = 30_000;

const unwritable = "they cannot be written to disk";
const tooMany = "too many wait for their delivery";

const closeMs = 3000;

const isPermanent = (error: unknown): boolean =>
  error instanceof Error && "permanent" in error && error.permanent === true;

/** What an earlier start has left, oldest first. */
const earlier = async (directory: string): Promise<File[]> => {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const names = (await readdir(directory)).toSorted();
  for (const name of names)
    if (name.endsWith(temporarySuffix)) await rm(join(directory, name), { force: true });
  const whole = names.filter((name) => name.endsWith(suffix));
  return await Promise.all(
    whole.map(async (name) => ({
      id: name.slice(0, -suffix.length),
      bytes: (await stat(join(directory, name))).size,
    })),
  );
};
