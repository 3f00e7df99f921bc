import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { Queue as BullQueue, DelayedError, WaitingError, Worker, type Job } from "bullmq";
import type { Kv } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import type { Queue, QueueEntry } from "./queue.ts";

/** How often the queue looks after itself, and about how long an entry rests that could not begin, ms. */
const rest = 1000;

/** How many rested entries go back at once: thousands that wait for one worktree must not keep others from their turn. */
const mostBack = 50;

/** What a dashboard still shows of entries that are done with. */
const kept = { age: 86_400, count: 10_000 };

/** The queue of an instance is deleted when nothing was put into it for so long, ms: the instance may never come back. */
const abandoned = 86_400_000;

/** How long a close waits for a store that is away, ms. */
const patience = 3000;

type Options = {
  kv: Kv;
  podName: string;
  concurrency: number;
  /** After so long an entry of an instance that is gone is delivered again. */
  lockSeconds: number;
  /** Called when a worker threw. */
  onError: (error: unknown, id: string) => void;
  log: Log;
};

/**
 * BullMQ on the shared store: a queue for all instances and one for each. Both workers share the slots, and the instance's
 * own queue goes first: an entry that finds no free slot goes back in front. An entry that is delivered again, when its
 * lock has lapsed, only makes a worker look at the record.
 */
export const createBullQueue = ({ kv, podName, concurrency, lockSeconds, onError, log }: Options): Queue => {
  /** Waits for a store that is away. */
  const connection = kv.dedicated();
  const running = new Map<string, Promise<Answer>>();
  const resting = new Set<{ job: Job; since: number }>();
  let work: Work | null = null;
  let paused = false;
  /** An entry of the instance's own queue has found no free slot. */
  let ownWaits = false;
  let timer: NodeJS.Timeout | undefined;

  const consume = (pod: string | null): Consumer => {
    const worker: Worker = new Worker(nameOf(pod), (job, token = "") => deliver(consumer, job, token), {
      ...optionsOf(kv),
      connection,
      name: encodeURIComponent(podName),
      autorun: false,
      concurrency,
      lockDuration: lockSeconds * 1000,
      stalledInterval: lockSeconds * 250,
      // Whether a job is lost is for the leases to say.
      maxStalledCount: 2 ** 31,
      removeOnComplete: kept,
      removeOnFail: kept,
    });
    const consumer: Consumer = { worker, busy: 0 };
    // A worker asks again at once when the store refuses: it rests until the next tick.
    worker.on("error", (err) => {
      log.debug({ err }, "the queue's worker failed; it goes on in a moment");
      void worker.pause(true);
    });
    return consumer;
  };

  const own = consume(podName);
  const shared = consume(null);
  const sharedQueue = openQueue(kv, null);
  own.worker.on("drained", () => {
    ownWaits = false;
    steer();
  });

  const deliver = async (consumer: Consumer, job: Job, token: string): Promise<void> => {
    const id = job.id ?? "";
    const known = running.get(id);
    if (known !== undefined) return await conclude(job, token, await again(consumer, known));
    if (paused || work === null || own.busy + shared.busy >= concurrency) {
      ownWaits ||= consumer === own;
      steer();
      return await putBack(job, token);
    }
    return await conclude(job, token, await begin(consumer, id, work));
  };

  const conclude = async (job: Job, token: string, answer: Answer): Promise<void> => {
    if (answer === "done") return;
    if (paused || work === null) return await putBack(job, token);
    // It is put in front before that; BullMQ itself would put it last.
    const latest = rest * (2 + Math.floor(resting.size / mostBack));
    await job.moveToDelayed(Date.now() + latest, token);
    resting.add({ job, since: performance.now() });
    throw new DelayedError();
  };

  /** In front. */
  const putBack = async (job: Job, token: string): Promise<never> => {
    await job.moveToWait(token);
    throw new WaitingError();
  };

  const begin = (consumer: Consumer, id: string, handle: Work): Promise<Answer> => {
    if (consumer === own) ownWaits = false;
    consumer.busy += 1;
    steer();
    const run = async (): Promise<Answer> => {
      try {
        return await handle(id);
      } catch (error) {
        onError(error, id);
        return "later";
      } finally {
        running.delete(id);
        consumer.busy -= 1;
        steer();
      }
    };
    const answer = run();
    running.set(id, answer);
    return answer;
  };

  /** Its lock lapsed while it is worked on here: it stays active until that ends, in a slot of its own. */
  const again = async ({ worker }: Consumer, known: Promise<Answer>): Promise<Answer> => {
    worker.concurrency += 1;
    const answer = await known;
    worker.concurrency -= 1;
    return answer;
  };

  /** Says which worker may take entries: that of the shared queue none while one of the instance's own waits. */
  const steer = (): void => {
    const busy = own.busy + shared.busy;
    const hasRoom = busy < concurrency;
    set(own, hasRoom || !ownWaits);
    // A worker that has all the slots takes no more by itself.
    set(shared, !ownWaits && (hasRoom || shared.busy === busy));
    if (paused || work === null) putForward(Infinity, Infinity);
  };

  const set = ({ worker }: Consumer, mayTake: boolean): void =>
    void (mayTake && !paused && work !== null ? worker.resume() : worker.pause(true));

  /** Puts the oldest entries that rest in front. */
  const putForward = (before: number, most: number): void => {
    const rested = [...resting].filter(({ since }) => since <= before).slice(0, most);
    for (const one of rested) resting.delete(one);
    // One connection: this order. An entry that was removed, or is worked on, stays as it is.
    void Promise.allSettled([
      ...rested.map(({ job }) => job.promote()),
      ...rested.toReversed().map(({ job }) => job.changePriority({ priority: 0, lifo: true })),
    ]);
  };

  const tick = (): void => {
    steer();
    putForward(performance.now() - rest / 2, mostBack);
  };

  const use = async (pod: string | null, work: (queue: BullQueue) => Promise<unknown>): Promise<void> => {
    // Those of instances are used seldom and are many in time: they are not kept.
    const queue = pod === null ? sharedQueue : openQueue(kv, pod);
    try {
      await work(queue);
    } finally {
      if (pod !== null) await queue.close();
    }
  };

  /** Notes which instances have queues, and deletes what is left of those that were. */
  const note = async (pod: string): Promise<void> => {
    const [register, now] = [kv.key("queues"), kv.now().getTime()];
    await kv.client.zadd(register, now, pod);
    for (const gone of await kv.client.zrangebyscore(register, 0, now - abandoned)) {
      await use(gone, (queue) => queue.obliterate({ force: true }));
      await kv.client.zrem(register, gone);
    }
  };

  const addTo = async (pod: string | null, entries: QueueEntry[]): Promise<void> => {
    try {
      await use(pod, (queue) => Promise.all(entries.map(({ id }) => addOne(queue, id))));
      if (pod !== null) await note(pod);
    } catch (err) {
      const jobs = entries.map(({ id }) => id);
      log.warn({ err, jobs }, "jobs could not be put into the queue; the next sweep does it");
    }
  };

  return {
    add: async (...entries) => {
      const groups = Map.groupBy(entries, ({ boundTo }) => boundTo);
      await Promise.all([...groups].map(([pod, group]) => addTo(pod, group)));
    },
    remove: async ({ id, boundTo }) => {
      await use(boundTo, (queue) => queue.remove(id)).catch((err: unknown) => {
        log.debug({ err, job: id }, "the job could not be taken out of the queue; it is delivered in vain");
      });
    },
    start: (handle) => {
      work = handle;
      timer ??= setInterval(tick, rest);
      steer();
    },
    pause: () => {
      paused = true;
      steer();
    },
    resume: () => {
      paused = false;
      steer();
    },
    stop: () => {
      work = null;
      steer();
    },
    close: async () => {
      work = null;
      clearInterval(timer);
      steer();
      // What has ended a moment ago is about to be told.
      await setImmediate();
      await Promise.all([own.worker.close(true), shared.worker.close(true), sharedQueue.close()]);
      // Answered after all that was told before.
      const quit = connection.quit().catch(() => undefined);
      await Promise.race([quit, sleep(patience, null, { ref: false })]);
      connection.disconnect();
    },
  };
};

type Work = Parameters<Queue["start"]>[0];

type Answer = Awaited<ReturnType<Work>>;

/** A worker of BullMQ, and how many entries it works on. */
type Consumer = { worker: Worker; busy: number };

/** What a queue's name may not contain is written as in an address. */
const nameOf = (pod: string | null): string => (pod === null ? "jobs" : `jobs.${encodeURIComponent(pod)}`);

/** The braces keep all keys of the queues in one slot. */
const optionsOf = (kv: Kv) => ({ prefix: `{${kv.prefix}:q}`, skipVersionCheck: true });

/** To add to and remove from: its connection fails at once while the store is away. */
const openQueue = (kv: Kv, pod: string | null): BullQueue => {
  const queue = new BullQueue(nameOf(pod), {
    ...optionsOf(kv),
    connection: kv.client,
    skipWaitingForReady: true,
    // It would be written each time.
    skipMetasUpdate: pod !== null,
    streams: { events: { maxLen: 100 } },
  });
  queue.on("error", () => undefined);
  return queue;
};

/** An entry that waits, or is worked on, stays as it is; one that is done with is added anew. The record says the rest. */
const addOne = async (queue: BullQueue, id: string): Promise<void> => {
  const add = (): Promise<unknown> => queue.add("run", {}, { jobId: id });
  const [known] = await Promise.all([queue.getJob(id), add()]);
  if (known?.finishedOn === undefined) return;
  await queue.remove(id);
  await add();
};
