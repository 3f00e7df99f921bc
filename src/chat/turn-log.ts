import { randomUUID } from "node:crypto";
import { type FileHandle, open, unlink } from "node:fs/promises";
import { join } from "node:path";
import { createPages, type Pages } from "./turn-log-pages.ts";

/** The server-sent events of one turn, for readers that come and go. */
export type TurnLog = {
  /** Adds whole events. Never waits and never throws; ignored after the end. */
  append: (text: string) => void;
  /** Nothing more comes. */
  end: () => void;
  /**
   * All bytes from the first one on, then what comes, until the end or the abort: both end it without an error. Pieces
   * are at most 64 KiB and end with a whole event, but for events that are longer. They must not be written to.
   * When the next bytes are neither in memory nor on disk, the last piece is `lost`. Once begun, it calls `left` at its end.
   */
  read: (signal: AbortSignal, left?: () => void) => AsyncGenerator<Uint8Array, void, void>;
  /** Bytes that are held in memory. */
  memoryBytes: () => number;
  /** Ends it, frees memory and disk. Readers that are not through get `lost`. Can be called again. */
  dispose: () => Promise<void>;
};

type Options = {
  /** What a reader is told last that was slower than the memory reaches back, when the disk does not have the rest. */
  lost: string;
  /** Exists; for the part that does not fit in memory. */
  directory: string;
  /** Kept in memory, in bytes; 256 KiB by default. More only until the disk has it. */
  memoryBytes?: number;
  /** Most that is kept at all, in bytes; 256 MiB by default. Beyond it, only readers that keep up go on. */
  maxBytes?: number;
};

/**
 * A log of bytes: what is older is in a file without a name, which vanishes with the process; what is newer is in
 * memory, `[pages.start(), pages.end())`. Readers hold nothing but their offset. Most turns never touch the disk.
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
  /** The file is of no use any more: the disk failed, is too slow, or would hold too much. */
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
  /** Takes the oldest out of memory, into the file as long as there is one. */
  const move = async (): Promise<void> => {
    while (pages.bytes() > memoryBytes && !lost) {
      if (file === null) {
        const opened = await openUnnamed(directory);
        // Meanwhile the log may have been disposed of.
        if (lost) return await opened.close();
        file = opened;
      }
      const at = pages.start();
      const oldest = pages.oldest(memoryBytes / 2);
      if (at + oldest.bytes > maxBytes) return await lose();
      await writeAll(file, oldest.parts, at);
      // Meanwhile the disk may have been given up and the memory cut.
      if (pages.start() === at) pages.drop(oldest.parts.length);
    }
  };
  const startMoving = (): void => {
    moving = true;
    const finish = (): void => {
      moving = false;
      // Not before the readers that keep up have been woken and have read.
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
/** What may wait for the disk: more than the longest single event. */
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

/** A piece of what is older than the memory; null when it is lost. */
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
