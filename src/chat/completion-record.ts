import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../lib/log.ts";
import type { CompletionRecord, CompletionStore } from "../store/completion-store.ts";

/** How long a record that the store does not take is tried again, and the first and longest pause in between, ms. */
export type Patience = { forMs: number; firstPause: number; longestPause: number };

export const usualPatience: Patience = { forMs: 30_000, firstPause: 100, longestPause: 2000 };

type Dependencies = { store: CompletionStore; log: Log; patience: Patience };

/**
 * Writes changes of a completion's record, again and again while the store is away. `refused`: the record is final, or
 * another turn's; `lost`: given up, or no longer worth it by the signal.
 */
export const createRecordWriter =
  ({ store, log, patience }: Dependencies) =>
  async (
    { uuid, epoch }: Pick<CompletionRecord, "uuid" | "epoch">,
    changes: Partial<CompletionRecord>,
    obsolete?: AbortSignal,
  ): Promise<"written" | "refused" | "lost"> => {
    const deadline = performance.now() + patience.forMs;
    for (let pause = patience.firstPause; ; pause = Math.min(2 * pause, patience.longestPause)) {
      try {
        return (await store.update(uuid, epoch, changes)) ? "written" : "refused";
      } catch (err) {
        if (obsolete?.aborted === true) return "lost";
        if (performance.now() + pause > deadline) {
          log.error(
            { err, completion: uuid, status: changes.status },
            "the state of a completion cannot be stored",
          );
          return "lost";
        }
        await delay(pause);
      }
    }
  };

export type RecordWriter = ReturnType<typeof createRecordWriter>;
