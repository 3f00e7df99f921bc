import { constants } from "node:fs";
import { open, readdir, rm } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

/** How long git may take before pipes are looked for, ms: most often there are none, and a large tree takes long to search. */
const patience = 2000;

/**
 * git opens `.gitignore` and `.gitattributes` of every directory, and waits for ever where an agent made a named pipe of
 * one. Takes such pipes away when git seems to wait. Resolves, never rejects, when it has looked or the signal aborts.
 */
const removePipes = async (root: string, done: AbortSignal): Promise<void> => {
  const waited = await delay(patience, true, { signal: done }).catch(() => false);
  if (waited) await search(Buffer.from(root), done);
};

/** Runs git over a working tree, and lets it past such pipes. */
export const pastPipes = async <Value>(root: string, action: () => Promise<Value>): Promise<Value> => {
  const done = new AbortController();
  const freed = removePipes(root, done.signal);
  try {
    return await action();
  } finally {
    done.abort();
    await freed;
  }
};

const search = async (directory: Buffer, done: AbortSignal): Promise<void> => {
  // Names as bytes: they need not be UTF-8. A directory that cannot be read is none that git reads either.
  const entries = await readdir(directory, { withFileTypes: true, encoding: "buffer" }).catch(() => []);
  for (const entry of entries) {
    if (done.aborted) return;
    const path = Buffer.concat([directory, slash, entry.name]);
    if (entry.isFIFO() && readByGit.has(entry.name.toString("latin1"))) await release(path);
    else if (entry.isDirectory()) await search(path, done);
  }
};

/** Removed while it is open for writing: who waits for a writer goes on, and nobody else comes to wait. */
const release = async (pipe: Buffer): Promise<void> => {
  const file = await open(pipe, constants.O_RDWR | constants.O_NONBLOCK).catch(() => null);
  await rm(pipe, { force: true }).catch(() => undefined);
  await file?.close();
};

const readByGit = new Set([".gitignore", ".gitattributes"]);
const slash = Buffer.of(0x2f);
