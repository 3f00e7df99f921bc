import { open, readFile, truncate } from "node:fs/promises";
import { nonBlocking } from "../lib/non-blocking.ts";

/** What is read at once, bytes, unless a line is longer. */
const chunkSize = 65_536;

/** The complete lines from a byte on, some 64 KiB of them, and the byte behind them. None: at the end, or there is no file. */
export const readLines = async (path: string, offset: number): Promise<{ lines: string[]; end: number }> => {
  const file = await open(path, nonBlocking.read).catch(nullIfMissing);
  if (file === null) return { lines: [], end: offset };
  try {
    for (let size = chunkSize; ; size *= 2) {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(size), 0, size, offset);
      const length = buffer.subarray(0, bytesRead).lastIndexOf(10) + 1;
      if (length > 0)
        return { lines: buffer.toString("utf8", 0, length - 1).split("\n"), end: offset + length };
      if (bytesRead < size) return { lines: [], end: offset };
    }
  } finally {
    await file.close();
  }
};

/** Number of lines and size of a file that an earlier start wrote; a line that a crash tore is cut off. */
export const measureLines = async (path: string): Promise<{ count: number; size: number }> => {
  const data = (await readFile(path, { flag: nonBlocking.read }).catch(nullIfMissing)) ?? Buffer.alloc(0);
  const size = data.lastIndexOf(10) + 1;
  if (size < data.length) await truncate(path, size);
  let count = 0;
  for (let at = data.indexOf(10); at !== -1; at = data.indexOf(10, at + 1)) count += 1;
  return { count, size };
};

export const nullIfMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === "ENOENT") return null;
  throw error;
};
