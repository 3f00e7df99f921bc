import type { Log } from "../lib/log.ts";
import { pause } from "../lib/wait.ts";
import type { Corpus, Source } from "./corpus.ts";
import type { Position, SharedCorpus } from "./redis-corpus.ts";

/** Pause before the store is asked again after a failure, ms. */
const pauseAfterFailure = 1000;

/** Brings `local` up to date with a shared corpus, then follows it until the signal aborts. */
export const followCorpus = async (
  corpus: SharedCorpus,
  local: Corpus,
  { signal, log }: { signal: AbortSignal; log: Log },
): Promise<void> => {
  let position: Position | null = null;
  let isLost = false;
  while (!signal.aborted) {
    try {
      const changed = corpus.changed(signal);
      position = await catchUp(corpus, local, { position, signal });
      if (isLost) log.info("the shared transcripts can be followed again");
      isLost = false;
      await changed;
    } catch (err) {
      if (signal.aborted) return;
      if (!isLost) log.warn({ err }, "the shared transcripts cannot be followed at present");
      isLost = true;
      position = null;
      await pause(pauseAfterFailure, signal);
    }
  }
};

type Reached = {
  /** Up to where `local` is known to be equal; null: nothing is known. */
  position: Position | null;
  signal: AbortSignal;
};

/** Applies all changes after the position. @returns the position that was reached */
export const catchUp = async (
  corpus: SharedCorpus,
  local: Corpus,
  { position, signal }: Reached,
): Promise<Position> => {
  let stored = await local.sources();
  const known = new Set<string>();
  for (let reached = position; ;) {
    signal.throwIfAborted();
    const next = await corpus.changesAfter(reached);
    if (next === null) return await catchUp(corpus, local, { position: null, signal });
    if (next.changes.length === 0) {
      if (position === null) await giveBack(corpus, local, { known, signal });
      return next.position;
    }
    for (const { id, source } of next.changes) {
      signal.throwIfAborted();
      known.add(id);
      const mine = stored.get(id);
      if (source === null) {
        if (mine !== undefined) await local.remove([id]);
      } else if (!isEqual(mine, source) && !(await apply(corpus, local, { source, mine }))) {
        // Another process that shares the file was faster, or the source is changing: look again.
        stored = await local.sources();
        if (!isEqual(stored.get(id), source)) await refill(corpus, local, source);
      }
    }
    reached = next.position;
    stored = await local.sources();
  }
};

/**
 * Stores what the shared corpus has lost: it knows nothing of a source, not even that it was removed. Each source is sent at
 * once, so that no reader takes a part of it for the whole.
 */
const giveBack = async (
  corpus: SharedCorpus,
  local: Corpus,
  { known, signal }: { known: ReadonlySet<string>; signal: AbortSignal },
): Promise<void> => {
  for (const [id, source] of await local.sources()) {
    signal.throwIfAborted();
    if (!known.has(id)) await corpus.put(source, await Array.fromAsync(local.chunksFrom(source, 0)));
  }
};

const isEqual = (mine: Source | undefined, source: Source): boolean =>
  mine !== undefined && JSON.stringify(mine) === JSON.stringify(source);

const refill = async (corpus: SharedCorpus, local: Corpus, source: Source): Promise<void> => {
  await local.remove([source.id]);
  await apply(corpus, local, { source, mine: undefined });
};

type Change = { source: Source; mine: Source | undefined };

/** Stores what `mine` lacks. @returns false: it does not continue what is stored, or not all of it is there */
const apply = async (corpus: SharedCorpus, local: Corpus, { source, mine }: Change): Promise<boolean> => {
  if (mine !== undefined && mine.generation > source.generation) return false;
  const isSame = mine?.generation === source.generation;
  if (isSame && mine.collected === source.collected)
    return mine.fingerprint === source.fingerprint && (await local.put(source, []));
  if (source.collected === 0) return await local.put(source, []);
  return await copyChunks(corpus, local, { source, from: isSame ? mine.collected : 0 });
};

const copyChunks = async (
  corpus: SharedCorpus,
  local: Corpus,
  { source, from }: { source: Source; from: number },
): Promise<boolean> => {
  let at = from;
  for await (const chunk of corpus.chunksFrom(source, at)) {
    const end = chunk.from + chunk.bytes.length;
    // Chunks beyond belong to a newer state of the source, which follows.
    if (chunk.from !== at || end > source.collected) return false;
    at = end;
    const isWhole = at === source.collected;
    const partly = { ...source, size: at, collected: at, fingerprint: "" };
    if (!(await local.put(isWhole ? source : partly, [chunk]))) return false;
    if (isWhole) return true;
  }
  return false;
};
