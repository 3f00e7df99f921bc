import { createHash, randomUUID } from "node:crypto";
import { lstat, mkdir, readdir, readlink, rename, rm, symlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import type { CompanionTarget } from "../contract/companion.ts";
import { lockFile } from "../lib/file-lock.ts";
import { withoutCredentials } from "../lib/git.ts";
import type { Log } from "../lib/log.ts";
import { pause } from "../lib/wait.ts";

export type Companion = {
  target: CompanionTarget;
  /** It has a URL, and no path that wins over it. */
  isFetched: boolean;
  files: () => Promise<CompanionFiles | null>;
  sync: (signal: AbortSignal) => Promise<string>;
  /** When a fetch last succeeded. */
  syncedAt: () => Promise<Date | null>;
  isFailing: () => boolean;
  /** Resolves after the first fetch, at once where there is an earlier checkout. */
  start: () => Promise<void>;
  stop: () => Promise<void>;
};

/** A checkout that does not change. */
export type CompanionFiles = {
  path: string;
  /** Repository and commit, `https://github.com/acme/hooks@1a2b3c4`; null: a path that the settings name. */
  label: string | null;
};

/** Writes the files to `{into}/{commit}` and resolves to the commit: `checkOutFiles` of the repositories. */
export type CheckOut = (request: {
  url: string;
  ref: string;
  into: string;
  signal: AbortSignal;
}) => Promise<string>;

type Source = {
  target: CompanionTarget;
  path: string | null;
  url: string | null;
  branch: string;
  /** Between two fetches; 0: it is fetched until it succeeds once. */
  intervalSeconds: number;
};

type Request = { source: Source; directory: string; checkOut: CheckOut; log: Log };

export const createCompanion = ({ source, directory, checkOut, log }: Request): Companion => {
  const { target, path, url, branch, intervalSeconds } = source;
  const key = createHash("sha256").update(`${url}\0${branch}`).digest("hex").slice(0, 12);
  const own = join(directory, `${target}-${key}`);
  const current = join(own, "current");
  const isFetched = path === null && url !== null;
  const stopping = new AbortController();
  let failing = false;
  let loop: Promise<void> = Promise.resolve();

  const files = async (): Promise<CompanionFiles | null> => {
    if (path !== null) return { path, label: null };
    const commit = url === null ? null : await readlink(current).catch(() => null);
    return commit === null ? null : { path: join(own, commit), label: `${url}@${commit.slice(0, 7)}` };
  };

  const update = async (from: string, signal: AbortSignal): Promise<void> => {
    await mkdir(own, { recursive: true, mode: 0o700 });
    await using _lock = await lockFile({ path: join(own, ".lock"), timeoutSeconds: lockSeconds, signal });
    const commit = await checkOut({ url: from, ref: branch, into: own, signal });
    const before = await readlink(current).catch(() => null);
    // The link's own time says when the last fetch succeeded.
    const next = join(own, `${randomUUID()}.link`);
    await symlink(commit, next);
    await rename(next, current);
    if (before === commit) return;
    if (before !== null) await utimes(join(own, before), new Date(), new Date()).catch(() => undefined);
    log.info({ target, commit }, "companion repository updated");
    await removeOld(own, commit);
  };

  const sync = async (signal: AbortSignal): Promise<string> => {
    if (path !== null) return "skipped (path)";
    if (url === null) return "skipped (no url)";
    try {
      await update(url, AbortSignal.any([signal, stopping.signal]));
      failing = false;
      return "ok";
    } catch (error) {
      signal.throwIfAborted();
      if (stopping.signal.aborted) return "error: The service is shutting down.";
      failing = true;
      const why = withoutCredentials(error instanceof Error ? error.message : String(error)).slice(0, 1000);
      log.warn(
        { target, reason: why },
        "a companion repository could not be fetched; the last checkout stays",
      );
      return `error: ${why}`;
    }
  };

  const refresh = async (): Promise<void> => {
    const { signal } = stopping;
    while (!signal.aborted) {
      if (intervalSeconds === 0 && !failing) return;
      await pause((intervalSeconds || retrySeconds) * 1000, signal);
      if (!signal.aborted) await sync(signal).catch(() => undefined);
    }
  };

  return {
    target,
    isFetched,
    files,
    sync,
    syncedAt: async () => (await lstat(current).catch(() => null))?.mtime ?? null,
    isFailing: () => failing,
    start: async () => {
      if (!isFetched) return;
      const first = sync(stopping.signal).then(
        () => undefined,
        () => undefined,
      );
      loop = first.then(refresh);
      if ((await files()) === null) await first;
    },
    stop: async () => {
      stopping.abort();
      await loop;
    },
  };
};

/** Another process of this user may fetch the same companion. */
const lockSeconds = 600;

/** Between two attempts of a companion that is fetched once. */
const retrySeconds = 300;

/** Reading a profile, or starting a job with one, takes less. */
const keptMs = 600_000;

/** Removes checkouts that were replaced a while ago, and what a crash has left. The caller has the lock. */
const removeOld = async (own: string, commit: string): Promise<void> => {
  const names = (await readdir(own)).filter((name) => ![commit, "current", ".lock"].includes(name));
  for (const name of names) {
    const found = await lstat(join(own, name)).catch(() => null);
    const isCheckout = /^[0-9a-f]{40,64}$/.test(name);
    if (found !== null && (!isCheckout || Date.now() - found.mtimeMs > keptMs))
      await rm(join(own, name), { recursive: true, force: true });
  }
};
