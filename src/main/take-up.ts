import { setTimeout as delay } from "node:timers/promises";
import { cleanUpEarlier, isOfStore, replay, settleEarlier, type Recovery } from "../jobs/recovery.ts";

type Step = () => Promise<unknown>;

type Request = {
  earlier: Recovery;
  /** What may begin only once the jobs of the earlier start have their state, in this order. Each step is done again until it succeeds. */
  afterwards: readonly Step[];
  /** Aborted when the service stops. */
  signal: AbortSignal;
};

/** First and longest pause between two tries, ms. */
const shortest = 250;
const longest = 5000;

/**
 * Takes up what an earlier start has left, however long the store cannot be asked, then begins with what is new. Orphans are
 * ended and work is saved behind that; one job that cannot be settled does not keep the others, and is tried again.
 * Resolves when all is done, or the service stops; never rejects.
 */
export const takeUp = async ({ earlier, afterwards, signal }: Request): Promise<void> => {
  const { log } = earlier;

  /** Does a step until it succeeds. Of failures that are not the store's `onOther` says whether it is left at that. */
  const insist = async (step: Step, onOther: () => boolean): Promise<void> => {
    for (let pause = shortest; !signal.aborted; pause = Math.min(pause * 2, longest)) {
      try {
        return void (await step());
      } catch (err) {
        const tell = pause > shortest ? log.debug : isOfStore(err) ? log.warn : log.error;
        tell.call(log, { err }, "what an earlier start has left cannot all be taken up yet");
        if (!isOfStore(err) && onOther()) return;
      }
      await delay(pause, undefined, { signal }).catch(() => undefined);
    }
  };

  await insist(
    () => replay(earlier),
    () => true,
  );
  await insist(
    () => settleEarlier(earlier),
    () => true,
  );
  const cleanedUp = insist(
    () => cleanUpEarlier(earlier),
    () => false,
  );
  for (const step of afterwards) await insist(step, () => true);
  await cleanedUp;
};
