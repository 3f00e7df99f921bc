import { setTimeout as delay } from "node:timers/promises";

/**
 * Waits until `condition` gives a truthy value, and returns it. Fails after `seconds`, with the last error or a sentence. The
 * limit ends a test that hangs, and a slow machine stays below it. A test that promises a duration measures it.
 */
export const until = async <Value>(
  condition: () => Value | Promise<Value>,
  { seconds = 100, what = "the condition" }: { seconds?: number; what?: string } = {},
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
