import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { zstdCompress, zstdDecompress } from "node:zlib";
import type { Kv } from "../kv/kv.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import type { Log } from "../lib/log.ts";
import type { Notifier } from "../lib/notifier.ts";
import { pause, poll } from "../lib/wait.ts";
import type { Locks } from "../store/locks.ts";
import { follows, type Chunk, type Corpus, type Source } from "./corpus.ts";
import type { TranscriptIndex } from "./transcript-index.ts";

/**
 * The corpus that several instances share: a log in the key-value store to which collectors append, and which every instance
 * applies to an index of its own, in the same order. An entry that does not follow what is stored is ignored by all alike: it
 * does no harm that two collectors append the same lines.
 *
 * The log has an epoch. One that has lost entries gets another, at which every instance reads it from the beginning and
 * appends what only its own index has.
 */
export type SharedCorpus = Corpus & {
  /** Brings the index up to date with the log. */
  catchUp: (signal: AbortSignal) => Promise<void>;
  follow: (signal: AbortSignal) => Promise<void>;
  /** Drops entries of sources that were removed or read anew. */
  compact: (signal: AbortSignal) => Promise<void>;
};

type Options = { kv: Kv; notifier: Notifier; locks: Locks; index: TranscriptIndex; log: Log };

/** What an entry says; the bytes of its chunk follow. */
type Entry = { source: Source; from?: number } | { removed: string };

/** What a log that is read from its beginning has of each source; null: it was removed. */
type Reached = Map<string, Source | null>;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

const topic = "transcripts";

/** Entries that are read at once; most have less than 1 MiB. */
const page = 20;

/** Pauses before the store is asked again after a failure, and before another instance's appending is over, ms. */
const pauseAfterFailure = 1000;

export const openSharedCorpus = ({ kv, notifier, locks, index, log }: Options): SharedCorpus => {
  const [logKey, epochKey] = [`{${kv.prefix}:t}:log`, `{${kv.prefix}:t}:log-epoch`];
  const mutex = createKeyedMutex();
  const never = new AbortController().signal;
  /** Sources of which the log has lost something that this instance never had. */
  const asked = new Set<string>();

  const append = async (entry: Entry, bytes: Uint8Array = new Uint8Array()): Promise<void> => {
    const packed = await compress(Buffer.concat([Buffer.from(`${JSON.stringify(entry)}\n`), bytes]));
    await kv.ask((client) => client.xadd(logKey, "*", "entry", packed));
    notifier.notify(topic);
  };

  const entriesAfter = async (id: string, end = "+") => {
    const found = await kv.ask((client) => client.xrangeBuffer(logKey, `(${id}`, end, "COUNT", page));
    return await Promise.all(
      found.map(async ([at, [, packed = Buffer.alloc(0)]]) => {
        const text = await decompress(packed);
        const feed = text.indexOf(10);
        const entry = JSON.parse(text.toString("utf8", 0, feed)) as Entry;
        return { id: at.toString(), entry, bytes: text.subarray(feed + 1) };
      }),
    );
  };

  const apply = async (entry: Entry, bytes: Uint8Array): Promise<void> => {
    if ("removed" in entry) return await index.remove([entry.removed]);
    const { source } = entry;
    if (await index.put(source, chunkOf(entry, bytes))) return;
    const stored = await index.source(source.id);
    if (!isBehind(stored, source) || asked.has(source.id)) return;
    asked.add(source.id);
    await kv.ask((client) => client.set(epochKey, randomUUID()));
  };

  /** Applies all entries after a position. @returns that of the last one */
  const readOn = async (id: string, reached: Reached | null, signal: AbortSignal): Promise<string> => {
    let last = id;
    for (;;) {
      signal.throwIfAborted();
      const entries = await entriesAfter(last);
      for (const { id: at, entry, bytes } of entries) {
        await apply(entry, bytes);
        last = at;
        if (reached === null) continue;
        if ("removed" in entry) reached.set(entry.removed, null);
        else if (follows(reached.get(entry.source.id) ?? undefined, entry.source, chunkOf(entry, bytes)))
          reached.set(entry.source.id, entry.source);
      }
      if (entries.length < page) return last;
    }
  };

  const behindOf = async (reached: Reached): Promise<Source[]> =>
    [...(await index.sources()).values()].filter((source) => {
      const found = reached.get(source.id);
      return found !== null && isBehind(found, source);
    });

  const republish = async (source: Source, reached: Source | null | undefined): Promise<void> => {
    let from = reached?.generation === source.generation ? reached.collected : 0;
    for (const bytes of index.chunks(source.id, from)) {
      const collected = from + bytes.length;
      const isWhole = collected === source.collected;
      await append({ source: isWhole ? source : { ...source, collected, fingerprint: "" }, from }, bytes);
      from = collected;
    }
    if (source.collected === 0) await append({ source });
  };

  /** Appends what only this instance has. One instance after the other, so that nothing is appended twice. */
  const refill = async (id: string, reached: Reached, signal: AbortSignal): Promise<string> => {
    if ((await behindOf(reached)).length === 0) return id;
    const pauses = { first: pauseAfterFailure, longest: pauseAfterFailure };
    const lock = await poll(() => locks.take("transcripts:refill"), { ...pauses, signal });
    try {
      const last = await readOn(id, reached, signal);
      for (const source of await behindOf(reached)) {
        signal.throwIfAborted();
        await republish(source, reached.get(source.id));
      }
      return last;
    } finally {
      await lock?.release();
    }
  };

  const currentEpoch = async (): Promise<string> => {
    const found = await kv.ask((client) => client.get(epochKey));
    if (found !== null) return found;
    await kv.ask((client) => client.set(epochKey, randomUUID(), "NX"));
    return await currentEpoch();
  };

  const catchUp = (signal: AbortSignal): Promise<void> =>
    mutex.runExclusive("", async () => {
      const epoch = await currentEpoch();
      const before = index.position();
      const reached: Reached | null = before.epoch === epoch ? null : new Map();
      let id = await readOn(reached === null ? before.id : "0", reached, signal);
      if (reached !== null) id = await refill(id, reached, signal);
      if (reached !== null || id !== before.id) index.setPosition({ epoch, id });
    });

  return {
    catchUp,

    follow: async (signal) => {
      let isLost = false;
      while (!signal.aborted) {
        try {
          const changed = notifier.waitFor(topic, signal);
          await catchUp(signal);
          if (isLost) log.info("the shared transcripts can be followed again");
          isLost = false;
          await changed;
        } catch (err) {
          if (signal.aborted) return;
          if (!isLost) log.warn({ err }, "the shared transcripts cannot be followed at present");
          isLost = true;
          await pause(pauseAfterFailure, signal);
        }
      }
    },

    compact: async (signal) => {
      await catchUp(signal);
      const sources = await index.sources();
      const { id: end } = index.position();
      for (let last = "0"; ;) {
        signal.throwIfAborted();
        const entries = await entriesAfter(last, end);
        const obsolete = entries.filter(({ entry }) => {
          if ("removed" in entry) return false;
          const source = sources.get(entry.source.id);
          return source === undefined || entry.source.generation < source.generation;
        });
        if (obsolete.length > 0)
          await kv.ask((client) => client.xdel(logKey, ...obsolete.map(({ id }) => id)));
        if (entries.length < page) return;
        last = entries.at(-1)?.id ?? end;
      }
    },

    sources: async () => {
      await catchUp(never);
      return await index.sources();
    },

    source: index.source,

    put: async (source, chunk) => {
      await append({ source, ...(chunk && { from: chunk.from }) }, chunk?.bytes);
      await catchUp(never);
      return JSON.stringify(await index.source(source.id)) === JSON.stringify(source);
    },

    remove: async (ids) => {
      for (const id of ids) await append({ removed: id });
      await catchUp(never);
    },
  };
};

const chunkOf = ({ from }: { from?: number }, bytes: Uint8Array): Chunk | undefined =>
  from === undefined ? undefined : { from, bytes };

/** Whether `stored` lacks something of a source. */
const isBehind = (stored: Source | undefined, source: Source): boolean =>
  stored === undefined ||
  stored.generation < source.generation ||
  (stored.generation === source.generation && stored.collected < source.collected);
