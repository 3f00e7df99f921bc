import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { Queue as BullQueue, DelayedError, WaitingError, Worker, type Job } from "bullmq";
import type { Kv } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import type { Queue, QueueEntry } from "./queue.ts";

/** Interval of the queue's own upkeep, and about how long an entry that could not begin rests, ms. */
const restMs = 1000;

/** Rested entries that return at once. Thousands may wait for one worktree; they must not delay all others. */
const maxReturned = 50;

/** Finished entries that a dashboard still shows. */
const retained = { age: 86_400, count: 10_000 };

/** An instance's queue that got no entry for this long is deleted, ms: the instance may never come back. */
const abandonedAfter = 86_400_000;

/** How long a worker waits for an entry in one command, s; a connection that is silent for 15 s counts as lost. */
const longestBlock = 10;

/** How long `close` waits for an unreachable store, ms. */
const closeTimeout = 3000;

type Options = {
  kv: Kv;
  podName: string;
  concurrency: number;
  /** Seconds after which an entry of a lost instance is redelivered. */
  lockSeconds: number;
  /** Called when a worker threw. */
  onError: (error: unknown, id: string) => void;
  log: Log;
};

/**
 * BullMQ on the shared store: one queue for all instances and one per instance. Both workers share the slots. The
 * instance's own queue has priority: its entry that finds no free slot returns to the front. A redelivered entry (its
 * lock has lapsed) only makes a worker read the record again.
 */
export const createBullQueue = ({ kv, podName, concurrency, lockSeconds, onError, log }: Options): Queue => {
  /** This connection waits for an unreachable store. */
  const connection = kv.dedicated();
  const running = new Map<string, Promise<Answer>>();
  const resting = new Set<{ job: Job; since: number }>();
  let work: Work | null = null;
  let paused = false;
  /** An entry of the instance's own queue found no free slot. */
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
      // The instance's own queue has lost entries only after its own crash.
      stalledInterval: lockSeconds * (pod === null ? 500 : 1000),
      drainDelay: longestBlock,
      // The leases decide whether a job is lost.
      maxStalledCount: 2 ** 31,
      removeOnComplete: retained,
      removeOnFail: retained,
    });
    const consumer: Consumer = { worker, busy: 0 };
    // A worker retries at once when the store refuses. It rests until the next tick instead.
    worker.on("error", (err) => {
      log.debug({ err }, "the queue's worker failed; it retries in a moment");
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
      return await returnToFront(job, token);
    }
    return await conclude(job, token, await begin(consumer, id, work));
  };

  const conclude = async (job: Job, token: string, answer: Answer): Promise<void> => {
    if (answer === "done") return;
    if (paused || work === null) return await returnToFront(job, token);
    // It returns to the front before that; BullMQ itself would put it last.
    const latest = restMs * (2 + Math.floor(resting.size / maxReturned));
    await job.moveToDelayed(Date.now() + latest, token);
    resting.add({ job, since: performance.now() });
    throw new DelayedError();
  };

  /** To the front. */
  const returnToFront = async (job: Job, token: string): Promise<never> => {
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

  /** Its lock lapsed while this instance works on it. It stays active until that work ends, in a slot of its own. */
  const again = async ({ worker }: Consumer, known: Promise<Answer>): Promise<Answer> => {
    worker.concurrency += 1;
    const answer = await known;
    worker.concurrency -= 1;
    return answer;
  };

  /** Chooses which worker may fetch: the shared one pauses while an entry of the instance's own queue waits. */
  const steer = (): void => {
    const busy = own.busy + shared.busy;
    const hasRoom = busy < concurrency;
    set(own, hasRoom || !ownWaits);
    // A worker whose slots are all in use fetches nothing by itself.
    set(shared, !ownWaits && (hasRoom || shared.busy === busy));
    if (paused || work === null) returnRested(Infinity, Infinity);
  };

  const set = ({ worker }: Consumer, mayTake: boolean): void =>
    void (mayTake && !paused && work !== null ? worker.resume() : worker.pause(true));

  /** Returns the oldest rested entries to the front. */
  const returnRested = (before: number, most: number): void => {
    const rested = [...resting].filter(({ since }) => since <= before).slice(0, most);
    for (const one of rested) resting.delete(one);
    // One connection keeps this order. An entry that was removed, or is active, stays as it is.
    void Promise.allSettled([
      ...rested.map(({ job }) => job.promote()),
      ...rested.toReversed().map(({ job }) => job.changePriority({ priority: 0, lifo: true })),
    ]);
  };

  const tick = (): void => {
    steer();
    returnRested(performance.now() - restMs / 2, maxReturned);
  };

  const use = async (pod: string | null, work: (queue: BullQueue) => Promise<unknown>): Promise<void> => {
    // Queues of instances are rarely used and become many over time: they are not cached.
    const queue = pod === null ? sharedQueue : openQueue(kv, pod);
    try {
      await work(queue);
    } finally {
      if (pod !== null) await queue.close();
    }
  };

  /** Records which instances have queues, and deletes abandoned ones. */
  const registerQueue = async (pod: string): Promise<void> => {
    const [register, now] = [kv.key("queues"), kv.now().getTime()];
    await kv.client.zadd(register, now, pod);
    for (const abandoned of await kv.client.zrangebyscore(register, 0, now - abandonedAfter)) {
      await use(abandoned, (queue) => queue.obliterate({ force: true }));
      await kv.client.zrem(register, abandoned);
    }
  };

  const addTo = async (pod: string | null, entries: QueueEntry[]): Promise<void> => {
    try {
      await use(pod, (queue) => Promise.all(entries.map(({ id }) => addOne(queue, id))));
      if (pod !== null) await registerQueue(pod);
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
      timer ??= setInterval(tick, restMs);
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
      // Lets jobs that have just ended acknowledge their entries.
      await setImmediate();
      await Promise.all([own.worker.close(true), shared.worker.close(true), sharedQueue.close()]);
      // The answer comes after those of all earlier commands.
      const quit = connection.quit().catch(() => undefined);
      await Promise.race([quit, sleep(closeTimeout, null, { ref: false })]);
      connection.disconnect();
    },
  };
};

type Work = Parameters<Queue["start"]>[0];

type Answer = Awaited<ReturnType<Work>>;

/** A BullMQ worker and the number of its active entries. */
type Consumer = { worker: Worker; busy: number };

/** Characters that a queue name may not contain are percent-encoded. */
const nameOf = (pod: string | null): string => (pod === null ? "jobs" : `jobs.${encodeURIComponent(pod)}`);

/** The braces place all keys of the queues in one hash slot. */
const optionsOf = (kv: Kv) => ({ prefix: `{${kv.prefix}:q}`, skipVersionCheck: true });

/** A producer. Its commands fail at once while the store is unreachable. */
const openQueue = (kv: Kv, pod: string | null): BullQueue => {
  const queue = new BullQueue(nameOf(pod), {
    ...optionsOf(kv),
    connection: kv.client,
    skipWaitingForReady: true,
    // Otherwise each addition writes it.
    skipMetasUpdate: pod !== null,
    streams: { events: { maxLen: 100 } },
  });
  queue.on("error", () => undefined);
  return queue;
};

/** A waiting or active entry stays as it is; a finished one is added again. The record decides the rest. */
const addOne = async (queue: BullQueue, id: string): Promise<void> => {
  const add = (): Promise<unknown> => queue.add("run", {}, { jobId: id });
  const [known] = await Promise.all([queue.getJob(id), add()]);
  if (known?.finishedOn === undefined) return;
  await queue.remove(id);
  await add();
};
