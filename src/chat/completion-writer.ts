import { hash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { completionIdForm } from "../contract/completion.ts";
import type { Log } from "../lib/log.ts";
import { CompletionRecord, type CompletionStore } from "../store/completion-store.ts";
import { parseWith } from "../store/records.ts";
import { openSpool, type Spool } from "../store/spool.ts";

/** How a completion ended. */
const SpooledEnd = z.object({
  uuid: z.string().regex(completionIdForm),
  epoch: z.string(),
  changes: CompletionRecord.partial() as z.ZodType<Partial<CompletionRecord>>,
});
export type SpooledEnd = z.infer<typeof SpooledEnd>;

/** Ends of completions that the store has not taken yet. */
export const openCompletionSpool = (directory: string, log: Log): Promise<Spool<SpooledEnd>> =>
  openSpool({
    directory,
    nameOf,
    parse: parseWith(SpooledEnd, (end, name) => nameOf(end) === name),
    noun: "end of a completion",
    log,
  });

const nameOf = ({ uuid, epoch }: SpooledEnd): string => hash("sha256", `${epoch} ${uuid}`);

/** How long to retry a write that the store refuses, and the first and longest pause in between, ms. */
export type Patience = { forMs: number; firstPause: number; longestPause: number };

export const usualPatience: Patience = { forMs: 30_000, firstPause: 100, longestPause: 2000 };

type RecordDependencies = {
  store: CompletionStore;
  spool: Spool<SpooledEnd>;
  log: Log;
  patience: Patience;
};

/**
 * Writes changes of a completion's record, with retries while the store is unreachable. `refused`: the record is
 * final, or another turn's; `lost`: given up, or ended by the signal. An end is in the spool then, from where it is
 * written later.
 */
export const createRecordWriter =
  ({ store, spool, log, patience }: RecordDependencies) =>
  async (
    { uuid, epoch }: Pick<CompletionRecord, "uuid" | "epoch">,
    changes: Partial<CompletionRecord>,
    obsolete?: AbortSignal,
  ): Promise<"written" | "refused" | "lost"> => {
    const deadline = performance.now() + patience.forMs;
    const end = changes.ended_at === undefined ? null : { uuid, epoch, changes };
    for (let pause = patience.firstPause; ; pause = Math.min(2 * pause, patience.longestPause)) {
      try {
        const isWritten = await store.update(uuid, epoch, changes);
        if (end !== null && pause > patience.firstPause) await spool.drop(end).catch(() => undefined);
        return isWritten ? "written" : "refused";
      } catch (err) {
        if (obsolete?.aborted === true) return "lost";
        if (end !== null && pause === patience.firstPause) await spool.add(end);
        if (performance.now() + pause > deadline) {
          log.error(
            { err, completion: uuid, status: changes.status },
            end === null
              ? "the state of a completion cannot be stored"
              : "the end of a completion cannot be stored at present; it is kept on disk and tried again",
          );
          return "lost";
        }
        await delay(pause);
      }
    }
  };

export type RecordWriter = ReturnType<typeof createRecordWriter>;
