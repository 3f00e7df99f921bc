/** Characters of a text that are shown at first, and that are read as markdown for one repaint. */
export const atOnce = 10_000;

let left = atOnce;
const waiting = new Set<() => void>();

/** Whether so many characters may be read now: hostile ones of the limit hold the page up for 0.5 s. */
export const spend = (characters: number): boolean => {
  if (characters > left) return false;
  if (left === atOnce) {
    const began = performance.now();
    // Three quarters of the time stay for all else.
    requestAnimationFrame(() => setTimeout(refill, 3 * (performance.now() - began)));
  }
  left -= characters;
  return true;
};

const refill = (): void => {
  left = atOnce;
  for (const wake of waiting) wake();
};

/** Calls `wake` whenever characters may be read again, until the function that it returns is called. */
export const whenRefilled = (wake: () => void): (() => void) => {
  waiting.add(wake);
  if (left === atOnce) wake();
  return () => void waiting.delete(wake);
};
