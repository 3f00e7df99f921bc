import { constants } from "node:fs";
import { lstat, open, opendir } from "node:fs/promises";
import { formsOf } from "../lib/redact.ts";

/** Bytes that are looked at at once. */
const pieceBytes = 1024 * 1024;

/**
 * The files below these paths of `root` (empty: all of it) that hold one of the values in their content or name, as it is or as
 * JSON, URLs and base64 write it. Files are read in pieces; links, sockets and the like are not followed. A path that is not
 * there is passed over.
 * @throws Error with a sentence when a file or a directory cannot be read
 */
export async function* filesWithSecret(
  root: string,
  paths: readonly string[],
  values: readonly string[],
  signal?: AbortSignal,
): AsyncGenerator<string> {
  const needles = [...new Set(values.flatMap(formsOf))].map((form) => Buffer.from(form));
  if (needles.length === 0) return;
  const piece = Buffer.alloc(pieceBytes + Math.max(...needles.map(({ length }) => length)));
  for (const path of paths)
    for await (const file of filesBelow(bytesOf(root, path))) {
      signal?.throwIfAborted();
      const name = file.subarray(Buffer.byteLength(root) + 1);
      if (needles.some((needle) => name.includes(needle)) || (await holds(file, needles, piece)))
        yield name.toString();
    }
}

/** The first of `filesWithSecret`; null: there is none. */
export const findSecret = async (...search: Parameters<typeof filesWithSecret>): Promise<string | null> => {
  for await (const file of filesWithSecret(...search)) return file;
  return null;
};

/** A name need not be UTF-8. */
const bytesOf = (directory: string | Buffer, name: string | Buffer): Buffer =>
  Buffer.concat([Buffer.from(directory), Buffer.from(name.length === 0 ? "" : "/"), Buffer.from(name)]);

/** The end of a piece is looked at with the next one. */
const holds = async (path: Buffer, needles: readonly Buffer[], piece: Buffer): Promise<boolean> => {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch(unlessGone(path));
  if (file === null) return false;
  try {
    const overlap = piece.length - pieceBytes;
    for (let kept = 0; ;) {
      const { bytesRead } = await file.read(piece, kept, pieceBytes);
      if (bytesRead === 0) return false;
      const end = kept + bytesRead;
      const read = piece.subarray(0, end);
      if (needles.some((needle) => read.includes(needle))) return true;
      kept = Math.min(overlap, end);
      piece.copyWithin(0, end - kept, end);
    }
  } finally {
    await file.close();
  }
};

async function* filesBelow(path: Buffer): AsyncGenerator<Buffer> {
  const found = await lstat(path).catch(unlessGone(path));
  if (found?.isFile() === true) yield path;
  if (found?.isDirectory() !== true) return;
  // Its entries are bytes, which the types do not know.
  const directory = await opendir(path, { encoding: "buffer" as BufferEncoding }).catch(unlessGone(path));
  if (directory === null) return;
  for await (const entry of directory) {
    const inner = bytesOf(path, entry.name);
    if (entry.isDirectory()) yield* filesBelow(inner);
    else if (entry.isFile()) yield inner;
  }
}

const unlessGone =
  (path: Buffer) =>
  ({ code }: NodeJS.ErrnoException): null => {
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw new Error(`${path.toString()} cannot be searched for secrets (${code})`);
  };
