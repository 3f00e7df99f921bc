import { randomUUID } from "node:crypto";
import { constants, createReadStream, createWriteStream } from "node:fs";
import { type FileHandle, lstat, mkdir, open, opendir, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { JobFile } from "../contract/job.ts";
import { isJobId } from "./job-record.ts";

/** What is kept of one job: bytes and files. */
const keptLimits = { bytes: 50 * 1024 * 1024, files: 1000 };

/** Most entries of a tree that are looked at. */
const mostSeen = 10_000;

/** Bytes of the longest path below the directory. */
const longestPath = 1000;

/** Most paths that a warning names. */
const mostNamed = 20;

/** The directory cannot be read as one: a link is in its place, or in that of one above it, or something else. */
export class NotExchanged extends Error {
  override name = "NotExchanged";
}

/**
 * Files that agents leave for people, one directory for each job: `{root}/{job_id}/{path}`. They are on the disk of the
 * instance that ran the job. `limits`: default those of `keptLimits`.
 */
export const createKeptFiles = (root: string, limits = keptLimits) => {
  const directoryOf = (jobId: string): string => {
    if (!isJobId(jobId)) throw new Error(`${JSON.stringify(jobId)} is not the id of a job`);
    return join(root, jobId);
  };
  const halfOf = (jobId: string): string => `${directoryOf(jobId)}.half`;
  return {
    /**
     * Keeps the files that are now in the directory `name` of a worktree, in place of those that were kept before; those stay
     * when it fails. Follows no link. Resolves to them by path, and what was left out; a directory that is not there is empty.
     * @throws NotExchanged
     */
    keep: async (
      jobId: string,
      { worktree, name }: { worktree: string; name: string },
    ): Promise<{ files: JobFile[]; warnings: string[] }> => {
      const [to, half] = [directoryOf(jobId), halfOf(jobId)];
      await rm(half, { recursive: true, force: true });
      await using from = await openBelow(worktree, name);
      const kept =
        from === null
          ? { files: [], warnings: [] }
          : await copied(await listed(from.handle), { from: from.handle, to: half, name, limits });
      await rm(to, { recursive: true, force: true });
      if (kept.files.length > 0) await rename(half, to);
      return kept;
    },
    /** Its size and what reads it, once; null: it is not on this disk. `path`: one of those that were kept. */
    open: async (
      jobId: string,
      path: string,
    ): Promise<{ bytes: number; read: () => AsyncIterable<Uint8Array> } | null> => {
      const file = join(directoryOf(jobId), path);
      const found = await lstat(file).catch(() => null);
      return found?.isFile() === true ? { bytes: found.size, read: () => createReadStream(file) } : null;
    },
    remove: async (jobId: string): Promise<void> => {
      for (const each of [directoryOf(jobId), halfOf(jobId)])
        await rm(each, { recursive: true, force: true });
    },
  };
};

export type KeptFiles = ReturnType<typeof createKeptFiles>;

/* A process of the agent's may be left that puts links where files were: each name is opened in an open directory. */

const inDirectory = (directory: FileHandle, name: string): string => `/proc/self/fd/${directory.fd}/${name}`;

const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

const openDirectory = (path: string): Promise<FileHandle> => open(path, flags | constants.O_DIRECTORY);

type Opened = AsyncDisposable & { handle: FileHandle };

/** Null: it is not there. `make`: it and those above it are made. */
const openBelow = async (top: string, name: string, make = false): Promise<Opened | null> => {
  let handle: FileHandle | null = null;
  let path = top;
  for (const part of ["", ...name.split("/")]) {
    const above: FileHandle | null = handle;
    path = join(path, part);
    const here = above === null ? top : inDirectory(above, part);
    try {
      if (make && above !== null) await mkdir(here, { mode: 0o700 }).catch(unlessThere);
      handle = await openDirectory(here);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return null;
      throw new NotExchanged(
        `${path} is a link, or no directory that can be read: no files can be exchanged there.\nWhat to do: Have the repository and the agent leave it to files.`,
        { cause: error },
      );
    } finally {
      await above?.close();
    }
  }
  return handle && { handle, [Symbol.asyncDispose]: () => handle.close() };
};

const unlessThere = (error: NodeJS.ErrnoException): void => {
  if (error.code !== "EEXIST") throw error;
};

/**
 * Writes files into the directory `name` of a worktree, in place of what has their names, and makes it if it is missing.
 * Follows no link.
 * @throws NotExchanged
 */
export const giveFiles = async (
  files: readonly { name: string; bytes: Uint8Array }[],
  { worktree, name }: { worktree: string; name: string },
): Promise<void> => {
  await using into = await openBelow(worktree, name, true);
  if (into === null) throw new NotExchanged(`${join(worktree, name)} was removed while files were put there`);
  for (const file of files) {
    const half = inDirectory(into.handle, `.${randomUUID()}`);
    await writeFile(half, file.bytes, { flag: "wx", mode: 0o600 });
    await rename(half, inDirectory(into.handle, file.name)).catch(async (cause: unknown) => {
      await rm(half, { force: true });
      throw new NotExchanged(
        `${join(worktree, name, file.name)} cannot be replaced by the file of the task`,
        { cause },
      );
    });
  }
};

/** A directory below one that is open; null: it is none any more. */
const openIn = (top: FileHandle, below: string): Promise<Opened | null> =>
  openBelow(inDirectory(top, "."), below).catch(() => null);

/** Files and what else is in a tree, by path. `isCut`: there is more. */
type Found = { files: string[]; others: string[]; isCut: boolean };

const listed = async (top: FileHandle): Promise<Found> => {
  const found: Found = { files: [], others: [], isCut: false };
  const directories = [""];
  let seen = 0;
  // It grows meanwhile.
  for (const below of directories) {
    await using directory = await openIn(top, below);
    if (directory === null) found.others.push(below);
    else
      for await (const entry of await opendir(inDirectory(directory.handle, "."))) {
        if ((seen += 1) > mostSeen) return { ...found, isCut: true };
        const path = join(below, entry.name);
        const isPlain = !path.includes("\uFFFD") && Buffer.byteLength(path) <= longestPath;
        if (isPlain && entry.isDirectory()) directories.push(path);
        else (isPlain && entry.isFile() ? found.files : found.others).push(path);
      }
  }
  found.files.sort();
  return found;
};

type Copying = { from: FileHandle; to: string; name: string; limits: typeof keptLimits };

const copied = async (
  { files: paths, others, isCut }: Found,
  { from, to, name, limits }: Copying,
): Promise<{ files: JobFile[]; warnings: string[] }> => {
  const files: JobFile[] = [];
  const over: string[] = [];
  let left = limits.bytes;
  for (const path of paths) {
    const bytes = files.length < limits.files ? await copyFile({ from, to, path, most: left }) : "over";
    if (bytes === "over") over.push(path);
    else if (bytes === "other") others.push(path);
    else files.push({ path, bytes });
    if (typeof bytes === "number") left -= bytes;
  }
  const many = `more than ${limits.bytes / 1024 / 1024} MiB or ${limits.files} files`;
  const warnings = [
    ...(others.length === 0
      ? []
      : [`Not kept of ${name}, because it is no file, or no plain path: ${some(others)}`]),
    ...(over.length === 0 ? [] : [`Not kept of ${name}, because it has ${many}: ${some(over)}`]),
    ...(isCut ? [`Not all of ${name} was looked at: it has more than ${mostSeen} entries`] : []),
  ];
  return { files, warnings };
};

/** Bytes that were copied, at most `most`. */
const copyFile = async ({
  from,
  to,
  path,
  most,
}: Pick<Copying, "from" | "to"> & { path: string; most: number }): Promise<number | "over" | "other"> => {
  await using directory = await openIn(from, dirname(path));
  if (directory === null) return "other";
  const source = await open(inDirectory(directory.handle, basename(path)), flags).catch(() => null);
  if (source === null) return "other";
  try {
    const status = await source.stat();
    if (!status.isFile()) return "other";
    const { size } = status;
    if (size > most) return "over";
    const target = join(to, path);
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    const writing = createWriteStream(target, { flags: "wx", mode: 0o600 });
    // It may grow meanwhile.
    const reading = size === 0 ? [] : source.createReadStream({ end: size - 1, autoClose: false });
    await pipeline(reading, writing);
    return writing.bytesWritten;
  } finally {
    await source.close();
  }
};

const some = (paths: readonly string[]): string => {
  const more = paths.length > mostNamed ? ` and ${paths.length - mostNamed} more` : "";
  return (
    paths
      .slice(0, mostNamed)
      .map((path) => path.replaceAll(/\p{Cc}/gu, "?"))
      .join(", ") + more
  );
};
