import { randomUUID } from "node:crypto";
import { type FileHandle, open, unlink } from "node:fs/promises";
import { join } from "node:path";

/** The server-sent events of one turn, for readers that come and go. */
export type TurnLog = {
  /** Appends whole events. Never waits and never throws; ignored after the end. */
  append: (text: string) => void;
  /** Nothing follows. */
  end: () => void;
  /**
   * All bytes from the first one on, then live, until the end or the abort, neither of which is an error. Pieces are
   * at most 64 KiB and end with a whole event, except for longer events; readers must not write to them. When the next
   * bytes are neither in memory nor on disk, the last piece is `lost`. A read that began calls `left` at its end.
   */
  read: (signal: AbortSignal, left?: () => void) => AsyncGenerator<Uint8Array, void, void>;
  /** Bytes in memory. */
  memoryBytes: () => number;
  /** Ends it, frees memory and disk. Readers that are behind get `lost`. Idempotent. */
  dispose: () => Promise<void>;
};

type Options = {
  /** The last piece for a reader that fell behind what memory and disk hold. */
  lost: string;
  /** Exists; for the part that does not fit in memory. */
  directory: string;
  /** Limit in memory, bytes; 256 KiB by default. Exceeded only until the disk has the data. */
  memoryBytes?: number;
  /** Limit in all, bytes; 256 MiB by default. Beyond it, only readers that keep up continue. */
  maxBytes?: number;
};

/**
 * A log of bytes: older ones are in an unlinked file, which vanishes with the process; newer ones are in memory,
 * `[pages.start(), pages.end())`. Readers hold only their offset. Most turns never use the disk.
 */
export const createTurnLog = ({
  lost: lostText,
  directory,
  memoryBytes = 256 * 1024,
  maxBytes = 256 * 1024 * 1024,
}: Options): TurnLog => {
  const pages = createPages(Math.min(pageBytes, Math.ceil(memoryBytes / 4)));
  const readers = new Set<() => void>();
  let file: FileHandle | null = null;
  let moving = false;
  let ended = false;
  /** The file is useless: the disk failed, is too slow, or would hold too much. */
  let lost = false;

  const wake = (): void => {
    for (const wakeOne of readers) wakeOne();
    readers.clear();
  };
  const lose = async (): Promise<void> => {
    lost = true;
    const useless = file;
    file = null;
    await useless?.close().catch(() => {});
  };
  /** Moves the oldest bytes from memory to the file, or drops them without one. */
  const move = async (): Promise<void> => {
    while (pages.bytes() > memoryBytes && !lost) {
      if (file === null) {
        const opened = await openUnnamed(directory);
        // The log may have been disposed of in the meantime.
        if (lost) return await opened.close();
        file = opened;
      }
      const at = pages.start();
      const oldest = pages.oldest(memoryBytes / 2);
      if (at + oldest.bytes > maxBytes) return await lose();
      await writeAll(file, oldest.parts, at);
      // The file may have been given up in the meantime, and the memory cut.
      if (pages.start() === at) pages.drop(oldest.parts.length);
    }
  };
  const startMoving = (): void => {
    moving = true;
    const finish = (): void => {
      moving = false;
      // After readers that keep up were woken and have read.
      if (lost) pages.cut(memoryBytes);
    };
    (lost ? new Promise<void>(setImmediate) : move().catch(lose)).then(finish, finish);
  };

  return {
    append: (text) => {
      if (ended || text === "") return;
      pages.append(text);
      wake();
      if (pages.bytes() <= memoryBytes) return;
      if (pages.bytes() > memoryBytes + backlogBytes) void lose();
      if (!moving) startMoving();
    },
    end: () => {
      ended = true;
      wake();
    },
    read: async function* (signal, left) {
      let offset = 0;
      let wakeMe = (): void => {};
      const onAbort = (): void => wakeMe();
      signal.addEventListener("abort", onAbort);
      try {
        while (!signal.aborted) {
          if (offset < pages.end()) {
            const piece = pages.at(offset, pieceBytes) ?? (await readFile(file, pages, offset));
            if (signal.aborted) return;
            offset += piece?.length ?? 0;
            yield piece ?? Buffer.from(lostText);
            if (piece === null) return;
          } else if (ended) {
            return;
          } else {
            const waiting = new Promise<void>((resolve) => (wakeMe = resolve));
            readers.add(wakeMe);
            await waiting;
            readers.delete(wakeMe);
          }
        }
      } finally {
        signal.removeEventListener("abort", onAbort);
        left?.();
      }
    },
    memoryBytes: pages.bytes,
    dispose: async () => {
      ended = true;
      pages.drop(Number.POSITIVE_INFINITY);
      wake();
      await lose();
    },
  };
};

const pageBytes = 16 * 1024;
const pieceBytes = 64 * 1024;
/** Limit of what waits for the disk: more than the longest single event. */
const backlogBytes = 32 * 1024 * 1024;

const openUnnamed = async (directory: string): Promise<FileHandle> => {
  const path = join(directory, `turn-${randomUUID()}.log`);
  const file = await open(path, "wx+", 0o600);
  await unlink(path);
  return file;
};

const writeAll = async (file: FileHandle, parts: Uint8Array[], at: number): Promise<void> => {
  let left = parts;
  for (let position = at; left.length > 0;) {
    const { bytesWritten } = await file.writev(left, position);
    position += bytesWritten;
    left = withoutFirst(left, bytesWritten);
  }
};

const withoutFirst = (parts: Uint8Array[], count: number): Uint8Array[] => {
  let skip = count;
  return parts.flatMap((part) => {
    const rest = part.subarray(skip);
    skip = Math.max(0, skip - part.length);
    return rest.length === 0 ? [] : [rest];
  });
};

/** A piece from before the memory's start; null when it is lost. */
const readFile = async (
  file: FileHandle | null,
  pages: Pages,
  offset: number,
): Promise<Uint8Array | null> => {
  const length = Math.min(pieceBytes, pages.start() - offset);
  const buffer = Buffer.allocUnsafe(length);
  const read = await file?.read(buffer, 0, length, offset).catch(() => null);
  const bytes = read?.bytesRead ?? 0;
  if (bytes === 0) return null;
  const lastEvent = buffer.lastIndexOf("\n\n", bytes - 2);
  return buffer.subarray(0, lastEvent === -1 ? bytes : lastEvent + 2);
};

/** The bytes `[start, end)` of a growing sequence, in append-only buffers: parts of them can be shared. */
type Pages = {
  start: () => number;
  end: () => number;
  bytes: () => number;
  append: (text: string) => void;
  /** At most `limit` bytes from `offset` on, from one page; null when they are not here. */
  at: (offset: number, limit: number) => Uint8Array | null;
  /** The oldest pages, so many that at most `keep` bytes would be left. */
  oldest: (keep: number) => { parts: Uint8Array[]; bytes: number };
  /** Drops the first pages. */
  drop: (count: number) => void;
  /** Drops the oldest, so that at most `keep` bytes are left; but never the newest page. */
  cut: (keep: number) => void;
};

type Page = { start: number; used: number; buffer: Buffer };

/** Never splits one append over two pages: one that exceeds `size` bytes gets its own page. */
const createPages = (size: number): Pages => {
  let pages: Page[] = [];
  let start = 0;
  let end = 0;

  const add = (bytes: number): Page => {
    const page = { start: end, used: 0, buffer: Buffer.allocUnsafeSlow(bytes) };
    pages.push(page);
    return page;
  };
  const drop = (count: number): void => {
    pages = pages.slice(count);
    start = pages[0]?.start ?? end;
  };
  /** How many of the oldest to drop so that at most `keep` bytes are left. */
  const countOver = (keep: number): number => {
    const first = pages.findIndex((page) => end - page.start <= keep);
    return first === -1 ? pages.length : first;
  };

  return {
    start: () => start,
    end: () => end,
    bytes: () => end - start,
    append: (text) => {
      const bytes = Buffer.byteLength(text);
      const last = pages.at(-1);
      const fits = last !== undefined && last.buffer.length - last.used >= bytes;
      const page = fits ? last : add(Math.max(size, bytes));
      page.buffer.write(text, page.used);
      page.used += bytes;
      end += bytes;
    },
    at: (offset, limit) => {
      const page = pages.findLast((candidate) => candidate.start <= offset);
      if (page === undefined) return null;
      const from = offset - page.start;
      const part = page.buffer.subarray(from, Math.min(page.used, from + limit));
      // A reader that holds a part must not keep a large page alive.
      if (page.buffer.length > size && part.length < page.used) return Buffer.from(part);
      return part;
    },
    oldest: (keep) => {
      const taken = pages.slice(0, countOver(keep));
      const parts = taken.map(({ buffer, used }) => buffer.subarray(0, used));
      return { parts, bytes: parts.reduce((sum, part) => sum + part.length, 0) };
    },
    drop,
    cut: (keep) => drop(Math.min(countOver(keep), pages.length - 1)),
  };
};
