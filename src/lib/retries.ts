/** First and longest pause before the next attempt, ms. */
const shortest = 1000;
const longest = 300_000;
const day = 86_400_000;

/** A failure that stays until somebody does something: the pauses grow to a day. */
export class LastingFailure extends Error {}

/** Delays retries: each failure in a row doubles the pause before the next attempt. */
export const createRetries = () => {
  const failures = new Map<string, { notBefore: number; pause: number }>();

  return {
    /** Whether the pause after the last failure is over; times in ms since the epoch. */
    isDue: (name: string, now: number): boolean => (failures.get(name)?.notBefore ?? 0) <= now,
    failed: (name: string, now: number, error?: unknown): void => {
      const most = error instanceof LastingFailure ? day : longest;
      const pause = Math.min((failures.get(name)?.pause ?? shortest / 2) * 2, most);
      failures.delete(name);
      failures.set(name, { notBefore: now + pause, pause });
      // The first one failed longest ago; what is not tried any more is forgotten.
      for (const [first, { notBefore }] of failures) {
        if (notBefore + day > now) break;
        failures.delete(first);
      }
    },
    succeeded: (name: string): void => void failures.delete(name),
  };
};

export type Retries = ReturnType<typeof createRetries>;
