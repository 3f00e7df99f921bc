import type { Queue } from "./queue.ts";

/** Longest rest of an id that could not begin, or whose worker threw (the store was unreachable), ms. */
const rest = 1000;

/**
 * In process, for a single instance: bound ids wait with all others. Calls `onError` when a worker throws. A rested id
 * goes ahead of those added after it.
 */
export const createLocalQueue = ({
  concurrency,
  onError,
}: {
  concurrency: number;
  onError: (error: unknown, id: string) => void;
}): Queue => {
  /** In order. Sets, because thousands may wait and each addition checks membership. */
  let waiting = new Set<string>();
  let restingIds = new Set<string>();
  const active = new Set<string>();
  let work: ((id: string) => Promise<"done" | "later">) | null = null;
  let paused = false;

  const takeBack = (): void => {
    if (restingIds.size === 0) return;
    waiting = new Set([...restingIds, ...waiting]);
    restingIds = new Set();
  };

  let resting: NodeJS.Timeout | null = null;

  /**
   * What it needs may have been freed in the meantime, or be in use by something other than a job: it is tried again.
   */
  const hold = (id: string): void => {
    restingIds.add(id);
    resting ??= setTimeout(() => {
      resting = null;
      takeBack();
      pump();
    }, rest).unref();
  };

  const run = async (id: string, handle: NonNullable<typeof work>): Promise<void> => {
    try {
      if ((await handle(id)) === "later") hold(id);
      else takeBack();
    } catch (error) {
      hold(id);
      onError(error, id);
    } finally {
      active.delete(id);
      pump();
    }
  };

  const pump = (): void => {
    while (work !== null && !paused && active.size < concurrency) {
      const [id] = waiting;
      if (id === undefined) return;
      waiting.delete(id);
      active.add(id);
      void run(id, work);
    }
  };

  const isKnown = (id: string): boolean => active.has(id) || waiting.has(id) || restingIds.has(id);

  return {
    add: async (...entries) => {
      for (const { id } of entries) if (!isKnown(id)) waiting.add(id);
      pump();
    },
    remove: async ({ id }) => {
      waiting.delete(id);
      restingIds.delete(id);
    },
    start: (handle) => {
      work = handle;
      pump();
    },
    pause: () => {
      paused = true;
    },
    resume: () => {
      paused = false;
      pump();
    },
    stop: () => {
      work = null;
    },
    close: async () => {
      work = null;
    },
  };
};
