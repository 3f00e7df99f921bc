import type { Dirent } from "node:fs";
import { closeSync, constants, lstatSync, openSync, readdirSync, readlinkSync, readSync } from "node:fs";
import { setImmediate as yieldToEvents } from "node:timers/promises";
import { formsOf } from "../lib/redact.ts";

const pieceBytes = 1024 * 1024;

/** How long others may be kept waiting, ms. */
const patience = 10;

/** A file by the bytes of its name, and the value that it holds. */
export type Hit = { file: Buffer; value: string };

/**
 * The files below these paths of `root` (empty: all of it) that hold one of the values in their content or name, as it is or as
 * JSON, URLs and base64 write it; also directories, sockets and the like so named, and links to such a name, which are not
 * followed. Files are read in pieces. A path that is not there is passed over. Names are bytes, which need not be UTF-8.
 * @throws Error with a sentence when a file or a directory cannot be read
 */
export async function* filesWithSecret(
  root: string,
  paths: readonly (string | Buffer)[],
  values: readonly string[],
  signal?: AbortSignal,
): AsyncGenerator<Hit> {
  const needles = needlesOf(values);
  if (needles.length === 0) return;
  const piece = Buffer.alloc(pieceBytes + Math.max(...needles.map(({ form }) => form.length)));
  const pause = pauses(signal);
  for (const path of paths)
    for (const [file, kind] of filesBelow(bytesOf(root, path))) {
      await pause();
      const name = file.subarray(Buffer.byteLength(root) + 1);
      const target = kind.isSymbolicLink() ? unlessGone(file, () => readlinkSync(file, "buffer")) : null;
      const named = needles.find(({ form }) => name.includes(form) || target?.includes(form));
      const needle = named ?? (kind.isFile() ? await heldBy(file, { needles, piece, pause }) : undefined);
      if (needle !== undefined) yield { file: name, value: needle.value };
    }
}

type Needle = { form: Buffer; value: string };

const needlesOf = (values: readonly string[]): Needle[] =>
  [...new Set(values)].flatMap((value) =>
    [...new Set(formsOf(value))].map((form) => ({ form: Buffer.from(form), value })),
  );

/** Finds the values in texts that come in pieces, as latin1 shows their bytes. Null: none is in the text so far. */
export const createFinder = (
  values: readonly string[],
): ((piece: string, isFirst: boolean) => string | null) => {
  const needles = needlesOf(values).map(({ form, value }) => ({ form: form.toString("latin1"), value }));
  const overlap = Math.max(0, ...needles.map(({ form }) => form.length - 1));
  let kept = "";
  return (piece, isFirst) => {
    const text = isFirst ? piece : kept + piece;
    kept = text.slice(Math.max(0, text.length - overlap));
    return needles.find(({ form }) => text.includes(form))?.value ?? null;
  };
};

/** The first of `filesWithSecret`; null: there is none. */
export const findSecret = async (...search: Parameters<typeof filesWithSecret>): Promise<string | null> => {
  for await (const { file } of filesWithSecret(...search)) return file.toString();
  return null;
};

/** Synchronous calls in slices: of many small files ten times as fast as asynchronous ones. */
const pauses = (signal?: AbortSignal): (() => Promise<void> | undefined) => {
  let began = performance.now();
  return () => {
    if (performance.now() - began < patience) return undefined;
    signal?.throwIfAborted();
    return yieldToEvents().then(() => void (began = performance.now()));
  };
};

/** A name need not be UTF-8. */
const bytesOf = (directory: string | Buffer, name: string | Buffer): Buffer =>
  Buffer.concat([Buffer.from(directory), Buffer.from(name.length === 0 ? "" : "/"), Buffer.from(name)]);

type Search = { needles: readonly Needle[]; piece: Buffer; pause: () => Promise<void> | undefined };

/** The end of a piece is looked at with the next one. */
const heldBy = async (path: Buffer, { needles, piece, pause }: Search): Promise<Needle | undefined> => {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = unlessGone(path, () => openSync(path, flags));
  if (file === null) return undefined;
  try {
    const overlap = piece.length - pieceBytes;
    for (let kept = 0; ;) {
      const bytes = readSync(file, piece, kept, pieceBytes, null);
      if (bytes === 0) return undefined;
      const end = kept + bytes;
      const read = piece.subarray(0, end);
      const needle = needles.find(({ form }) => read.includes(form));
      if (needle !== undefined) return needle;
      kept = Math.min(overlap, end);
      piece.copyWithin(0, end - kept, end);
      await pause();
    }
  } finally {
    closeSync(file);
  }
};

type Found = [path: Buffer, kind: Pick<Dirent, "isFile" | "isSymbolicLink">];

function* filesBelow(path: Buffer): Generator<Found> {
  const found = unlessGone(path, () => lstatSync(path));
  if (found !== null) yield [path, found];
  if (found?.isDirectory() === true) yield* filesIn(path);
}

function* filesIn(directory: Buffer): Generator<Found> {
  const entries = unlessGone(directory, () =>
    readdirSync(directory, { withFileTypes: true, encoding: "buffer" }),
  );
  for (const entry of entries ?? []) {
    const path = bytesOf(directory, entry.name);
    yield [path, entry];
    if (entry.isDirectory()) yield* filesIn(path);
  }
}

const unlessGone = <Value>(path: Buffer, look: () => Value): Value | null => {
  try {
    return look();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw new Error(`${path.toString()} cannot be searched for secrets (${code})`, { cause: error });
  }
};
