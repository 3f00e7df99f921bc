import { open } from "node:fs/promises";
import { withoutWaiting } from "../../lib/without-waiting.ts";

const chunkSize = 65_536;

type Follow = {
  path: string;
  /** Lines to pass over before the first one that is yielded. */
  skip: number;
  /** Whether more lines can still come. */
  isOpen: () => boolean;
  /** Resolves when something was appended, the file was closed, or the signal aborts. */
  changed: (signal: AbortSignal) => Promise<void>;
  signal: AbortSignal;
};

/**
 * The complete lines of an append-only file, then those to come. Holds a position in the file and at most one chunk
 * and one line: a reader that stalls costs nothing.
 */
export const followFile = async function* ({
  path,
  skip,
  isOpen,
  changed,
  signal,
}: Follow): AsyncGenerator<string> {
  const chunk = Buffer.allocUnsafe(chunkSize);
  let position = 0;
  let rest: Buffer = Buffer.alloc(0);
  let passed = 0;
  // A reader that has come to the end waits for nothing any more, also where its caller never aborts.
  const left = new AbortController();
  const stop = AbortSignal.any([signal, left.signal]);
  try {
    // Asked before reading: what is appended while we read is told by this promise, not lost.
    let change = changed(stop);
    while (!signal.aborted) {
      const mayGrow = isOpen();
      const bytes = await readAt(path, chunk, position);
      position += bytes;
      const { lines, remainder } = split(Buffer.concat([rest, chunk.subarray(0, bytes)]));
      rest = remainder;
      for (const line of lines) {
        passed += 1;
        if (passed > skip) yield line.toString("utf8");
        if (signal.aborted) return;
      }
      if (bytes > 0) continue;
      if (!mayGrow) return;
      await change;
      change = changed(stop);
    }
  } finally {
    left.abort();
  }
};

/** Bytes read into `chunk`; 0 at the end or when there is no file yet. */
const readAt = async (path: string, chunk: Buffer, position: number): Promise<number> => {
  const file = await open(path, withoutWaiting.read).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (file === null) return 0;
  try {
    return (await file.read(chunk, 0, chunk.length, position)).bytesRead;
  } finally {
    await file.close();
  }
};

const split = (data: Buffer): { lines: Buffer[]; remainder: Buffer } => {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = data.indexOf(10, start); end !== -1; end = data.indexOf(10, start)) {
    lines.push(data.subarray(start, end));
    start = end + 1;
  }
  return { lines, remainder: data.subarray(start) };
};
