/** First and longest pause before the next attempt, ms. */
const shortest = 1000;
const longest = 300_000;

/** Delays retries: each failure in a row doubles the pause before the next attempt. */
export const createRetries = () => {
  const failures = new Map<string, { notBefore: number; pause: number }>();

  return {
    /** Whether the pause after the last failure is over; times in ms since the epoch. */
    isDue: (name: string, now: number): boolean => (failures.get(name)?.notBefore ?? 0) <= now,
    failed: (name: string, now: number): void => {
      const pause = Math.min((failures.get(name)?.pause ?? shortest / 2) * 2, longest);
      failures.set(name, { notBefore: now + pause, pause });
    },
    succeeded: (name: string): void => void failures.delete(name),
  };
};

export type Retries = ReturnType<typeof createRetries>;
