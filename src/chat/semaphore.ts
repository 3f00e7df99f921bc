import { ServiceError } from "../contract/errors.ts";
import { createNotifier } from "../lib/notifier.ts";
import type { Permit } from "./engine.ts";

/** The places for turns under way, and whether they are still given out. */
export const createSemaphore = (max: number) => {
  let taken = 0;
  let closed: ServiceError | null = null;
  const allGiven = createNotifier();

  return {
    /** @throws ServiceError `capacity_full`, or the reason of `close` */
    acquire: (): Permit => {
      if (closed !== null) throw closed;
      if (taken >= max) throw full(max);
      taken += 1;
      let held = true;
      return {
        release: () => {
          if (!held) return;
          held = false;
          taken -= 1;
          if (taken === 0) allGiven.notify("");
        },
      };
    },
    taken: (): number => taken,
    /** Resolves when none is taken, or the signal aborts. */
    idle: async (signal: AbortSignal): Promise<void> => {
      if (taken > 0) await allGiven.waitFor("", signal);
    },
    close: (reason: ServiceError): void => void (closed = reason),
  };
};

const full = (max: number): ServiceError =>
  new ServiceError(
    "capacity_full",
    `${max === 1 ? "The only place" : `All ${max} places`} for answers ${max === 1 ? "is" : "are"} taken; ask again in a few seconds, or raise AGENT_MODE_MAX_CONCURRENT`,
    { retryAfter: 5 },
  );
