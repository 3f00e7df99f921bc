import { hash } from "node:crypto";
import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { constants as zlib, zstdDecompressSync } from "node:zlib";
import type { Chunk, Source } from "./corpus.ts";
import { toState, type FileState } from "./discovery.ts";

/** About as much is stored at once; a longer line is a chunk of its own. */
const chunkBytes = 1024 * 1024;

/** Length of the first and of the last bytes that tell a file that has grown from another one, bytes. */
const edgeBytes = 4096;

type Edges = { head: Buffer; tail: Buffer };
const noEdges: Edges = { head: Buffer.alloc(0), tail: Buffer.alloc(0) };

type Piece = { chunk?: Chunk; source: Source };

/**
 * What a file has beyond `source`, piece by piece: each with the source as it is when the piece is stored. Ends without a
 * piece when there is nothing to store.
 * @throws Error of the file system
 */
export const readNew = async function* (source: Source): AsyncGenerator<Piece> {
  // Opening a pipe must not wait for its writer; an agent may have put a link there meanwhile.
  const file = await open(source.path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  try {
    const stats = await file.stat();
    if (!stats.isFile()) return;
    const isWhole = source.kind === "plan" || source.kind === "memory" || isPacked(source);
    const read = isWhole ? readDocument : readLines;
    yield* read(file, { source, state: toState(stats) });
  } finally {
    await file.close();
  }
};

const isPacked = ({ path }: Source): boolean => path.endsWith(".zst");

type Reading = { source: Source; state: FileState };

const readLines = async function* (file: FileHandle, { source, state }: Reading): AsyncGenerator<Piece> {
  const known = state.size < source.collected ? null : await edgesOf(file, source);
  let edges = known ?? noEdges;
  let at = known === null ? 0 : source.collected;
  const generation = known === null ? source.generation + 1 : source.generation;
  let isStored = known !== null && isUnchanged(source, state);
  const next = (size: number): Source => ({
    ...source,
    ...state,
    size,
    generation,
    collected: at,
    fingerprint: fingerprintOf(edges),
    deleted: false,
  });
  for (;;) {
    const { bytes, isEnd, end } = await readWholeLines(file, at, state.size);
    if (bytes.length === 0) {
      // A half line at the end is part of the size: the file is not read again until it changes.
      if (!isStored) yield { source: next(state.size) };
      return;
    }
    const chunk = { from: at, bytes };
    at += bytes.length;
    edges = {
      head: Buffer.concat([edges.head, bytes.subarray(0, edgeBytes - edges.head.length)]),
      tail: Buffer.concat([edges.tail, bytes.subarray(-edgeBytes)]).subarray(-edgeBytes),
    };
    yield { chunk, source: next(isEnd ? end : at) };
    if (isEnd) return;
    isStored = false;
  }
};

/** Most bytes that a packed file may have unpacked: they are in memory. */
const mostUnpacked = 512 * 1024 * 1024;

/** The lines in a packed file, as far as they can be unpacked; where not, a torn record ends them. */
const unpacked = (packed: Buffer): Buffer => {
  const options = { info: true, finishFlush: zlib.ZSTD_e_continue, maxOutputLength: mostUnpacked };
  const frames: Buffer[] = [];
  try {
    for (let at = 0; at < packed.length;) {
      // Node unpacks one frame at a time, and its types do not know the option `info`.
      const frame: unknown = zstdDecompressSync(packed.subarray(at), options);
      const { buffer, engine } = frame as { buffer: Buffer; engine: { bytesWritten: number } };
      frames.push(buffer);
      at += engine.bytesWritten;
    }
  } catch {
    frames.push(Buffer.from("{"));
  }
  const bytes = Buffer.concat(frames);
  return bytes.at(-1) === 10 ? bytes : Buffer.concat([bytes, Buffer.of(10)]);
};

const readDocument = async function* (file: FileHandle, { source, state }: Reading): AsyncGenerator<Piece> {
  const content = await file.readFile();
  const fingerprint = hash("sha256", content);
  const isSame = fingerprint === source.fingerprint;
  if (isSame && isUnchanged(source, state)) return;
  const next = { ...source, ...state, fingerprint, deleted: false };
  if (isSame) return yield { source: next };
  const bytes = isPacked(source) ? unpacked(content) : content;
  const generation = source.generation + 1;
  yield { chunk: { from: 0, bytes }, source: { ...next, generation, collected: bytes.length } };
};

/** Whether nothing tells that the file has changed since it was collected. */
export const isUnchanged = (before: FileState & { deleted?: boolean }, state: FileState): boolean =>
  before.deleted !== true &&
  before.size === state.size &&
  before.modified === state.modified &&
  before.file_id === state.file_id;

/**
 * Whole lines from `at` on, about a chunk, at least one unless there is none. `isEnd`: the end of the file, at `end`, was
 * seen.
 */
const readWholeLines = async (
  file: FileHandle,
  at: number,
  size: number,
): Promise<{ bytes: Buffer; isEnd: boolean; end: number }> => {
  // Larger than what is there, to see the end.
  const buffer = Buffer.allocUnsafe(Math.min(chunkBytes, Math.max(edgeBytes, size - at + 1)));
  const length = await fill(file, buffer, at);
  const end = at + length;
  const feed = buffer.subarray(0, length).lastIndexOf(10);
  if (feed >= 0) return { bytes: buffer.subarray(0, feed + 1), isEnd: length < buffer.length, end };
  // A long line: first its length, so that its memory is taken once.
  for (let from = at + length; length === buffer.length;) {
    const more = await fill(file, buffer, from);
    const found = buffer.subarray(0, more).indexOf(10);
    if (found >= 0) {
      const line = Buffer.allocUnsafe(from + found + 1 - at);
      const isWhole = (await fill(file, line, at)) === line.length && line.at(-1) === 10;
      return { bytes: isWhole ? line : Buffer.alloc(0), isEnd: false, end: from };
    }
    if (more < buffer.length) break;
    from += more;
  }
  return { bytes: Buffer.alloc(0), isEnd: true, end };
};

const fill = async (file: FileHandle, buffer: Buffer, at: number): Promise<number> => {
  let length = 0;
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, at + length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return length;
};

/** The edges of what was collected; null: the file holds something else there. */
const edgesOf = async (file: FileHandle, { collected, fingerprint }: Source): Promise<Edges | null> => {
  if (collected === 0) return noEdges;
  const length = Math.min(edgeBytes, collected);
  const edges = { head: Buffer.alloc(length), tail: Buffer.alloc(length) };
  await fill(file, edges.head, 0);
  await fill(file, edges.tail, collected - length);
  return fingerprintOf(edges) === fingerprint ? edges : null;
};

const fingerprintOf = ({ head, tail }: Edges): string =>
  head.length === 0 ? "" : hash("sha256", Buffer.concat([head, tail]));
