import type { Notifier } from "../lib/notifier.ts";
import type { JobRecord, StoredMessage } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";
import { changedMessages } from "./messages.ts";

type Dependencies = {
  store: Pick<JobStore, "get">;
  jobEnds: Pick<Notifier, "notify" | "waitFor">;
  id: string;
  /** Changes the record as long as the run owns it; null: it does not, or there is nothing to change. */
  update: (patch: (record: JobRecord) => JobPatch | null) => Promise<JobRecord | null>;
};

/** The messages of a job, for its run. */
export type Mailbox = {
  /** All of them, in order. Rejects while the store is unreachable. */
  read: () => Promise<readonly StoredMessage[]>;
  /** The same, whenever there may be something new; until the signal aborts. */
  watch: (signal: AbortSignal) => AsyncGenerator<readonly StoredMessage[], void, void>;
  /** Changes messages durably. False: none has changed, or the run does not own the job any more. */
  change: (change: (message: StoredMessage) => Partial<StoredMessage>) => Promise<boolean>;
};

export const createMailbox = ({ store, jobEnds, id, update }: Dependencies): Mailbox => {
  const read = async (): Promise<readonly StoredMessage[]> => (await store.get(id))?.messages ?? [];
  return {
    read,
    watch: async function* (signal) {
      while (!signal.aborted) {
        const woken = jobEnds.waitFor(id, signal);
        const messages = await read().catch(() => null);
        if (messages !== null) yield messages;
        await woken;
      }
    },
    change: async (change) => {
      const changed = await update((record) => changedMessages(record, change));
      // Somebody may wait until a message is taken back.
      if (changed !== null) jobEnds.notify(id);
      return changed !== null;
    },
  };
};
