import { watch, type FSWatcher } from "node:fs";
import type { Log } from "../lib/log.ts";
import { createNotifier } from "../lib/notifier.ts";
import { pause } from "../lib/wait.ts";
import type { Locks } from "../store/locks.ts";
import type { Collector } from "./collector.ts";

type Options = {
  collector: Pick<Collector, "collect" | "directories">;
  /** Seconds between two looks. */
  pollInterval: number;
  log: Log;
  signal: AbortSignal;
};

/** How long changes are gathered before they are collected, ms. */
const gatherMs = 200;

/** Kernels limit the watched directories of a user: beyond so many, polling finds the rest. */
const mostWatched = 4096;

/** How long a candidate waits before it asks again to be the collector, ms. */
const candidacyMs = 2000;

/** Collects what changes, soon after it changes, and looks at everything each interval, until the signal aborts. */
export const runCollector = async ({ collector, pollInterval, log, signal }: Options): Promise<void> => {
  const { notify, waitFor } = createNotifier(pollInterval * 1000);
  const watchers = new Map<string, FSWatcher>();
  let isPolling = false;
  let isFailing = false;

  const fallBack = (err: unknown): void => {
    if (!isPolling) log.warn({ err }, "files cannot be watched; changes are found at each poll only");
    isPolling = true;
    close();
  };

  const close = (): void => {
    for (const watcher of watchers.values()) watcher.close();
    watchers.clear();
  };

  const watchDirectories = (): void => {
    const wanted = new Set(collector.directories().slice(0, mostWatched));
    for (const [path, watcher] of watchers) {
      if (wanted.has(path)) continue;
      watcher.close();
      watchers.delete(path);
    }
    for (const path of wanted) {
      if (isPolling) return;
      if (watchers.has(path)) continue;
      try {
        const watcher = watch(path, { persistent: false }, () => notify("change"));
        // A directory that is gone is no failure of watching.
        watcher.on("error", () => {
          watcher.close();
          watchers.delete(path);
        });
        watchers.set(path, watcher);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code !== "ENOENT" && code !== "EACCES" && code !== "ENOTDIR") fallBack(error);
      }
    }
  };

  try {
    while (!signal.aborted) {
      const changed = waitFor("change", signal);
      try {
        await collector.collect(signal);
        if (isFailing) log.info("transcripts are collected again");
        isFailing = false;
        const before = watchers.size;
        watchDirectories();
        // What was made in a new directory before it was watched is found by one more look.
        if (watchers.size > before) notify("change");
      } catch (err) {
        if (signal.aborted) return;
        if (!isFailing) log.warn({ err }, "transcripts cannot be collected at present");
        isFailing = true;
      }
      await changed;
      await pause(gatherMs, signal);
    }
  } finally {
    close();
  }
};

/** Runs `work` while this instance has the lock, of all that share the locks at most one. */
export const whileElected = async (
  { locks, name, signal }: { locks: Locks; name: string; signal: AbortSignal },
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> => {
  while (!signal.aborted) {
    const lock = await locks.take(name).catch(() => null);
    if (lock === null) {
      await pause(candidacyMs, signal);
      continue;
    }
    try {
      await work(AbortSignal.any([signal, lock.lost]));
    } finally {
      await lock.release();
    }
  }
};
