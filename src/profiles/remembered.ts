import { FileFault } from "./contained.ts";

/** Milliseconds for which the files are taken to be as they were: asking then costs no look at the disk. */
const trustFor = 1000;

/**
 * Gives what `refresh` gave, and asks it again when that is a second old. `refresh` gets its last value (null: there is
 * none), to give it back when nothing has changed. A `FileFault` lasts a second too. `now` in milliseconds.
 */
export const remembered = <Value>(
  refresh: (previous: Value | null) => Promise<Value>,
  now: () => number,
): (() => Promise<Value>) => {
  let current: Promise<Value> | null = null;
  let checkedAt = -Infinity;
  return async () => {
    const at = now();
    // A clock that was set back must not make the answer last until it has caught up.
    const fresh = at - checkedAt < trustFor && at >= checkedAt;
    if (current === null || !fresh) {
      const before = current;
      checkedAt = at;
      // Those who ask meanwhile wait with it: a change that was seen is never followed by the state before it.
      const next = (async () => refresh(before === null ? null : await before.catch(() => null)))();
      current = next;
      // After another failure (a program error, say) the next call tries again instead of repeating it.
      next.catch((error: unknown) => {
        if (current === next && !(error instanceof FileFault)) current = null;
      });
    }
    return current;
  };
};
