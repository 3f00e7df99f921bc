import type { Queue } from "./queue.ts";

/** In process. `onError` hears of a worker that threw, which is a bug: the id is dropped. */
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

  const run = async (id: string, handle: (id: string) => Promise<"done" | "later">): Promise<void> => {
    try {
      if ((await handle(id)) === "later") {
        held.push(id);
      } else {
        waiting = [...held, ...waiting];
        held = [];
      }
    } catch (error) {
      onError(error, id);
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
