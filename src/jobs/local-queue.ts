import type { Queue } from "./queue.ts";

/** How long an id rests that could not begin, or whose worker threw (the store was unreachable), ms. */
const rest = 1000;

type Options = { concurrency: number; onError: (error: unknown, id: string) => void };

/**
 * In process, for a single instance: bound ids wait with all others. Calls `onError` when a worker throws. A rested id
 * goes ahead of those added after it, also when another id is done: what it needs may be free then.
 */
export const createLocalQueue = ({ concurrency, onError }: Options): Queue => {
  /** In order. Sets, because thousands may wait and each addition checks membership. */
  let waiting = new Set<string>();
  let resting = new Set<string>();
  const active = new Set<string>();
  let work: Parameters<Queue["start"]>[0] | null = null;
  let paused = false;
  let timer: NodeJS.Timeout | null = null;

  const wake = (): void => {
    if (resting.size > 0) waiting = new Set([...resting, ...waiting]);
    resting = new Set();
  };

  const restAWhile = (id: string): void => {
    resting.add(id);
    timer ??= setTimeout(() => {
      timer = null;
      wake();
      pump();
    }, rest).unref();
  };

  const run = async (id: string, handle: NonNullable<typeof work>): Promise<void> => {
    try {
      if ((await handle(id)) === "later") restAWhile(id);
      else wake();
    } catch (error) {
      restAWhile(id);
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

  return {
    add: async (...entries) => {
      for (const { id } of entries) if (!active.has(id) && !resting.has(id)) waiting.add(id);
      pump();
    },
    remove: async ({ id }) => {
      waiting.delete(id);
      resting.delete(id);
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
