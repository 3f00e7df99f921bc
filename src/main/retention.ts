import type { Log } from "../lib/log.ts";
import { pause } from "../lib/wait.ts";

/** Repeats `round`, with `intervalMs` between its end and the next start. `stop` waits for the round in flight. */
export const startRepeating = (round: (signal: AbortSignal) => Promise<void>, intervalMs: number) => {
  const controller = new AbortController();
  const loop = (async () => {
    while (!controller.signal.aborted) {
      await round(controller.signal);
      await pause(intervalMs, controller.signal);
    }
  })();
  return {
    stop: async (): Promise<void> => {
      controller.abort();
      await loop;
    },
  };
};

type Clock = { now: () => Date; log: Log };

/**
 * Repeats a round that deletes what is past its time; one that fails is put off to the next. `isSure` false: the clock is
 * in doubt, so nothing may be deleted because of its age.
 */
export const startRetention = (
  { now, log }: Clock,
  intervalMs: number,
  round: (signal: AbortSignal, isSure: boolean) => Promise<unknown>,
) => {
  const isSure = createClockCheck({ now, log });
  return startRepeating(async (signal) => {
    await round(signal, isSure()).catch((err: unknown) => log.debug({ err }, "retention was put off"));
  }, intervalMs);
};

/** A step of the clock against the monotonic one that is no drift, ms. */
const step = 120_000;

/** How long a clock that was set is doubted, ms. */
const doubt = 3_600_000;

/** Whether what is old by the clock may be deleted. Not for an hour after it was set: by mistake, it may be set back. */
export const createClockCheck = (
  { now, log }: { now: () => Date; log: Pick<Log, "warn"> },
  monotonic = (): number => performance.now(),
) => {
  const offset = (): number => now().getTime() - monotonic();
  let trusted = offset();
  let doubted = { offset: trusted, since: 0 };
  return (): boolean => {
    const current = offset();
    if (Math.abs(current - trusted) > step) {
      if (Math.abs(current - doubted.offset) > step) {
        doubted = { offset: current, since: monotonic() };
        const seconds = Math.round((current - trusted) / 1000);
        log.warn({ seconds }, "the clock was set: for an hour nothing is deleted because of its age");
      }
      if (monotonic() - doubted.since < doubt) return false;
    }
    trusted = current;
    doubted = { offset: current, since: 0 };
    return true;
  };
};
