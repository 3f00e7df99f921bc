import type { Queue } from "./queue.ts";

/** How long an id rests at most that has to wait, or whose worker threw (the store was away), ms. */
const rest = 1000;

/** In process. `onError` hears of a worker that threw; the id is handed out again after a rest. */
export const createLocalQueue = ({
  concurrency,
  onError,
}: {
  concurrency: number;
  onError: (error: unknown, id: string) => void;
}): Queue => {
  let waiting: string[] = [];
  let held: string[] = [];
  let active = 0;
  let work: ((id: string) => Promise<"done" | "later">) | null = null;

  const takeBack = (): void => {
    waiting = [...held, ...waiting];
    held = [];
  };

  /** What it needs may have come free while the worker said so, or be in use by no job: it is looked at again. */
  const hold = (id: string): void => {
    held.push(id);
    setTimeout(() => {
      takeBack();
      pump();
    }, rest).unref();
  };

  const run = async (id: string, handle: (id: string) => Promise<"done" | "later">): Promise<void> => {
    try {
      if ((await handle(id)) === "later") hold(id);
      else takeBack();
    } catch (error) {
      onError(error, id);
      setTimeout(() => {
        waiting.unshift(id);
        pump();
      }, rest).unref();
    } finally {
      active -= 1;
      pump();
    }
  };

  const pump = (): void => {
    while (work !== null && active < concurrency) {
      const id = waiting.shift();
      if (id === undefined) return;
      active += 1;
      void run(id, work);
    }
  };

  return {
    add: (id) => {
      waiting.push(id);
      pump();
    },
    remove: (id) => {
      waiting = waiting.filter((other) => other !== id);
      held = held.filter((other) => other !== id);
    },
    start: (handle) => {
      work = handle;
      pump();
    },
    stop: () => {
      work = null;
    },
  };
};
