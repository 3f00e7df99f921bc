import { setTimeout as delay } from "node:timers/promises";

/** Waits until `condition` gives a truthy value and returns it; fails with the last error, or a sentence, after `seconds`. */
export const until = async <Value>(
  condition: () => Value | Promise<Value>,
  { seconds = 60, what = "the condition" }: { seconds?: number; what?: string } = {},
): Promise<NonNullable<Value>> => {
  const deadline = performance.now() + seconds * 1000;
  let failure: unknown;
  for (;;) {
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
    await delay(10);
  }
};
