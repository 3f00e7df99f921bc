import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { temporarySuffix } from "../lib/atomic-file.ts";
import type { Log } from "../lib/log.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { createNotifier } from "../lib/notifier.ts";
import { orAborted, retry } from "../lib/wait.ts";

type Options<Item> = {
  directory: string;
  /** Size of all items together; beyond it the oldest are lost. */
  maxBytes: number;
  /**
   * Takes an item; the id stays the same when an item is tried again. Rejects when it cannot be taken now, and with an
   * error that has `permanent: true` when it never can.
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

/** Items that wait on disk until they are delivered, oldest first. They outlive the process, not a power failure. */
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

  /** Null: there is nothing in it to deliver. */
  const read = async (file: File): Promise<{ item: Item } | null> => {
    try {
      return { item: JSON.parse(await readFile(pathOf(file), "utf8")) as Item };
    } catch (err) {
      if (files[0] === file)
        log.warn({ err, file: pathOf(file) }, `a file of ${what} is skipped: it is torn`);
      return null;
    }
  };

  let isFailing = false;
  const onFailure = (err: unknown): void => {
    if (isPermanent(err)) throw err;
    if (isFailing) log.debug({ err }, `${what} still cannot be delivered`);
    else log.warn({ err }, `${what} cannot be delivered at present; they are kept on disk and tried again`);
    isFailing = true;
  };

  const deliverNext = async (file: File): Promise<void> => {
    const found = await read(file);
    const work = async (): Promise<void> => {
      if (found !== null) await options.deliver(found.item, file.id);
      if (isFailing) log.info(`${what} are delivered again`);
      isFailing = false;
      for (const reason of [unwritable, tooMany]) losses.clear(reason);
    };
    await retry(work, { first: 250, longest: 30_000, signal: closing.signal, onFailure }).catch(
      (err: unknown) => {
        if (!isPermanent(err)) throw err;
        log.warn({ err, id: file.id }, `some ${what} are dropped: they can never be delivered`);
      },
    );
    await remove(file);
  };

  const deliverAll = async (): Promise<void> => {
    for (;;) {
      const [oldest] = files;
      if (oldest !== undefined) await deliverNext(oldest);
      else if (closing.signal.aborted) return;
      else await added.waitFor("", closing.signal);
    }
  };
  // It rejects when it fails while it closes: the rest is for the next start.
  const delivering = deliverAll().catch((err: unknown) => log.debug({ err }, `${what} are left on disk`));

  return {
    add,
    close: async () => {
      closing.abort();
      await orAborted(delivering, AbortSignal.timeout(closeMs)).catch(() => undefined);
    },
  };
};

const suffix = ".json";

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
