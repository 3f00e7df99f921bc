import type { JobChange } from "../contract/job-list.ts";
import { missed, type Notifier } from "../lib/notifier.ts";
import { orAborted } from "../lib/wait.ts";
import { toJob, type JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";

const topic = "changed:";

/** The store, which notifies all instances of each change of a job. `note` gets the new state first. */
export const announcing = (
  store: JobStore,
  { notify }: Pick<Notifier, "notify">,
  note: (record: JobRecord) => Promise<void> = async () => undefined,
): JobStore => ({
  ...store,
  create: async (...given) => {
    const answer = await store.create(...given);
    if (!("created" in answer) || !answer.created) return answer;
    await note(answer.record);
    notify(topic + answer.record.id);
    return answer;
  },
  update: async (id, ...given) => {
    const record = await store.update(id, ...given);
    if (record === null) return null;
    await note(record);
    notify(topic + id);
    return record;
  },
  remove: async (id) => {
    await store.remove(id);
    notify(topic + id);
  },
});

const behind: readonly JobChange[] = [{ type: "behind" }];

/** Most jobs that are read at once, and most changes that wait for a slow reader. */
const limit = 500;

type Dependencies = {
  store: Pick<JobStore, "get">;
  notifier: Pick<Notifier, "listen">;
  /** How long changes are collected before the jobs are read, ms. */
  gatherMs?: number;
};

/** Changes of jobs on all instances. Each job is read once for all readers, when it has changed, once in `gatherMs`. */
export const createJobChanges = ({ store, notifier, gatherMs = 200 }: Dependencies) => {
  const readers = new Set<(changes: readonly JobChange[]) => void>();
  let changed = new Set<string>();

  const read = async (id: string): Promise<JobChange> => {
    const record = await store.get(id);
    return record === null ? { type: "removed", id } : { type: "job", job: toJob(record) };
  };

  const publish = async (): Promise<void> => {
    const ids = [...changed];
    changed = new Set();
    // While the store is away, the next change that can be read makes up for it.
    const changes = ids.length > limit ? behind : await Promise.all(ids.map(read)).catch(() => behind);
    for (const reader of readers) reader(changes);
  };

  notifier.listen((name) => {
    if (name === missed) for (const reader of readers) reader(behind);
    if (readers.size === 0 || !name.startsWith(topic)) return;
    if (changed.size === 0) setTimeout(() => void publish(), gatherMs);
    changed.add(name.slice(topic.length));
  });

  /** From now on, until the signal aborts. */
  return async function* (signal: AbortSignal): AsyncGenerator<JobChange, void> {
    let waiting: JobChange[] = [];
    let wake = Promise.withResolvers<void>();
    const reader = (changes: readonly JobChange[]): void => {
      waiting = waiting.length + changes.length > limit ? [...behind] : [...waiting, ...changes];
      wake.resolve();
    };
    readers.add(reader);
    try {
      for (;;) {
        await orAborted(wake.promise, signal);
        wake = Promise.withResolvers();
        yield* waiting.splice(0);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      readers.delete(reader);
    }
  };
};
