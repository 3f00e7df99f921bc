import { setTimeout as delay } from "node:timers/promises";

/** Waits until `condition` gives a truthy value and returns it; fails with the last error, or a sentence, after `seconds`. */
export const until = async <Value>(
  condition: () => Value | Promise<Value>,
  { seconds = 60, what = "the condition" }: { seconds?: number; what?: string } = {},
): Promise<NonNullable<Value>> => {
  const start = performance.now();
  const deadline = start + seconds * 1000;
  let failure: unknown;
  for (;;) {
    const began = performance.now();
    try {
      failure = undefined;
      const value = await condition();
      if (value) return value;
    } catch (error) {
      failure = error;
    }
    if (performance.now() > deadline) {
      throw new Error(`waited ${seconds} s in vain for ${what}`, { cause: failure });
    }
    // A costly look, or thousands of looks, must not take the processor from what is waited for.
    const now = performance.now();
    await delay(10 + Math.min(200, 3 * (now - began) + (now - start) / 50));
  }
};
