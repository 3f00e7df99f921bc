/** No client needs to hear more often, ms. */
const shortestGap = 500;

type Send = (note: { progress: number; message: string }) => Promise<void>;

/**
 * Passes on what a handler tells of its progress, numbered, the first at once and then one in half a second at most,
 * always the newest. `stop` before the result is sent: nothing may follow it.
 */
export const createProgress = (send: Send, gapMs = shortestGap) => {
  let progress = 0;
  let waiting: string | null = null;
  let pause: NodeJS.Timeout | null = null;

  const pass = (message: string): void => {
    progress += 1;
    // A caller that is gone is told nothing, and that is all right.
    send({ progress, message }).catch(() => undefined);
    pause = setTimeout(() => {
      pause = null;
      if (waiting === null) return;
      const next = waiting;
      waiting = null;
      pass(next);
    }, gapMs);
    pause.unref();
  };

  return {
    tell: (message: string): void => {
      if (pause === null) pass(message);
      else waiting = message;
    },
    stop: (): void => {
      waiting = null;
      if (pause !== null) clearTimeout(pause);
      pause = null;
    },
  };
};
