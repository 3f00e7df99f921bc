const shortestGoodKey = 16;

/** A warning for each key that can be guessed. */
export const shortKeys = (variable: string, keys: readonly string[]): string[] =>
  keys.flatMap((key, index) =>
    key.length >= shortestGoodKey
      ? []
      : [
          `${variable}: key number ${index + 1} has fewer than ${shortestGoodKey} characters and can be guessed`,
        ],
  );
