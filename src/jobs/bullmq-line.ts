import {
  createRedisBackend,
  Job,
  Queue,
  Worker,
  type JobJson,
  type JobsOptions,
  type QueueOptions,
} from "bullmq";
import type { Kv } from "../kv/kv.ts";
import type { QueueEntry } from "./queue.ts";

/** An id that this process has taken and that no other gets while its lock is extended. */
export type Entry = { id: string; job: Job; line: Line };

/** The waiting ids of one name. Every function rejects with what the store's client says when it cannot do it. */
export type Line = {
  /** Whether something may wait that nobody has looked for since; saves looking in vain. */
  mayHold: () => boolean;
  /** Something may wait now. */
  look: () => void;
  take: () => Promise<Entry | null>;
  /** Done with it. With `andNext` the same round trip takes the next one. */
  complete: (entry: Entry, options: { andNext: boolean }) => Promise<Entry | null>;
  /** Puts it back in front. */
  giveBack: (entry: Entry) => Promise<void>;
  /** Keeps what was taken; what others let lapse waits again, after two calls at the latest. Returns ids that were lost. */
  keep: () => Promise<string[]>;
  close: () => Promise<void>;
};

type Place = { kv: Kv; name: string };

/** To add to and remove from only; cheap, and closed at once by those who need it once. */
export const openEntrance = ({ kv, name }: Place) => {
  const queue = new Queue(
    name,
    { ...optionsOf(kv), streams: { events: { maxLen: 100 } } },
    createRedisBackend,
  );
  queue.on("error", () => undefined);

  return {
    /** Those that wait already, or are being worked on, stay as they are. */
    add: async (entries: QueueEntry[]): Promise<void> => {
      // One round trip: the client sends in one go what is asked in one go, in this order.
      const known = Promise.all(
        entries.map(({ id, fresh = false }) =>
          fresh ? Promise.resolve(0) : kv.client.exists(queue.toKey(id)),
        ),
      );
      const [found] = await Promise.all([
        known,
        Promise.all(entries.map(({ id }) => queue.add("run", {}, pointer(id)))),
      ]);
      for (const { id } of entries.filter((_, at) => found[at] === 1)) {
        const keys = ["active", "wait", "stalled", `${id}:lock`].map((key) => queue.toKey(key));
        await kv.client.eval(waitAgain, keys.length, ...keys, id);
      }
      await lapse(kv, queue);
    },
    remove: async (id: string): Promise<void> => void (await queue.remove(id)),
    close: () => queue.close(),
  };
};

export type Entrance = ReturnType<typeof openEntrance>;

/** `podName` and `epoch` tell whose lock it is. */
export const openLine = (options: Place & { podName: string; epoch: string; lockSeconds: number }): Line => {
  const { kv, name, podName, lockSeconds } = options;
  const token = `${podName} ${options.epoch}`;
  const lockDuration = lockSeconds * 1000;
  const worker = new Worker(
    name,
    null,
    {
      ...optionsOf(kv),
      autorun: false,
      lockDuration,
      // A little less than the time between two calls of `keep`: one of all instances does it each time.
      stalledInterval: Math.floor(lockDuration / 4),
      maxStalledCount: 0,
    },
    // We never block, so the second connection that a worker has is not made.
    (...[queue, given]) => createRedisBackend(queue, given),
  );
  worker.on("error", () => undefined);
  const backend = worker.getBackend();
  const taken = new Set<Entry>();
  let news = 1;
  let seen = 0;
  let asking = 0;
  let unsure = true;

  /** Runs a command that may take an entry. */
  const ask = async (command: () => Promise<Job | null>): Promise<Entry | null> => {
    const known = news;
    asking += 1;
    try {
      const job = await command();
      if (job === null) seen = Math.max(seen, known);
      return job === null ? null : enter(job);
    } catch (error) {
      // The store may have done it without our hearing of it.
      if (!isRefusal(error)) unsure = true;
      throw error;
    } finally {
      asking -= 1;
    }
  };

  const enter = (job: Job): Entry => {
    const entry = { id: job.id ?? "", job, line };
    taken.add(entry);
    return entry;
  };

  /** What is locked in our name without our having it: taken by a command whose answer was lost, or by an earlier life. */
  const reclaim = async (): Promise<void> => {
    unsure = false;
    const mine = new Set([...taken].map(({ id }) => id));
    try {
      const active = await kv.client.lrange(worker.toKey("active"), 0, -1);
      const ids = active.filter((id) => !mine.has(id));
      const locks = ids.length === 0 ? [] : await kv.client.mget(ids.map((id) => `${worker.toKey(id)}:lock`));
      for (const [at, id] of ids.entries()) {
        const lock = locks[at];
        if (lock?.startsWith(`${podName} `))
          await backend.moveJobFromActiveToWait(id, lock).catch(unlessRefused);
      }
    } catch (error) {
      unsure = true;
      throw error;
    }
  };

  const line: Line = {
    mayHold: () => news > seen,
    look: () => void (news += 1),
    take: async () => {
      if (unsure && asking === 0) await reclaim();
      return await ask(async () => (await worker.getNextJob(token, { block: false })) ?? null);
    },
    complete: async (entry, { andNext }) => {
      const complete = async (): Promise<Job | null> => {
        const next = await entry.job.moveToCompleted(null, token, andNext);
        taken.delete(entry);
        const [json, id] = (next ?? []) as [JobJson?, string?];
        return json ? Job.fromJSON(worker, json, id) : null;
      };
      try {
        if (andNext) return await ask(complete);
        await complete();
        return null;
      } catch (error) {
        unlessRefused(error);
        taken.delete(entry);
        return null;
      }
    },
    giveBack: async (entry) => {
      await entry.job.moveToWait(token).catch(unlessRefused);
      taken.delete(entry);
      line.look();
    },
    keep: async () => {
      const ids = [...taken].map(({ id }) => id);
      const lost =
        ids.length === 0
          ? []
          : await worker.extendJobLocks(
              ids,
              ids.map(() => token),
              lockDuration,
            );
      if ((await backend.moveStalledJobsToWait()).length > 0) line.look();
      await lapse(kv, worker);
      return lost;
    },
    close: () => worker.close(true),
  };
  return line;
};

/** The braces keep all keys of a line in one slot; the client is the service's own and is closed by it. */
const optionsOf = (kv: Kv) =>
  ({
    connection: kv.client,
    prefix: `{${kv.prefix}:q}`,
    skipVersionCheck: true,
    // Nothing waits for a store that is away.
    skipWaitingForReady: true,
  }) satisfies QueueOptions;

/** The record says all there is to say. */
const pointer = (id: string): JobsOptions => ({
  jobId: id,
  attempts: 1,
  removeOnComplete: true,
  removeOnFail: true,
});

/** Seconds after which the keys of a line go that nobody keeps: its instance may never come back under its name. */
const lapseSeconds = 86_400;

/** What BullMQ keeps of a line in which nothing waits. */
const lapse = async (kv: Kv, line: Pick<Queue, "toKey">): Promise<void> => {
  const keys = ["meta", "events", "id", "marker"].map((key) => line.toKey(key));
  await Promise.all(keys.map((key) => kv.client.expire(key, lapseSeconds)));
};

/** What an instance that died held is not held any more once its lock has lapsed: it goes to the front. */
const waitAgain = `
if redis.call("EXISTS", KEYS[4]) == 1 or redis.call("LREM", KEYS[1], 1, ARGV[1]) == 0 then return 0 end
redis.call("SREM", KEYS[3], ARGV[1])
return redis.call("RPUSH", KEYS[2], ARGV[1])`;

/** The store answered that the entry is not ours any more: its lock lapsed, or it was removed. */
const isRefusal = (error: unknown): boolean =>
  error instanceof Error && "code" in error && typeof error.code === "number" && error.code < 0;

const unlessRefused = (error: unknown): void => {
  if (!isRefusal(error)) throw error;
};
