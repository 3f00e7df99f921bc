import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { Queue as BullQueue, DelayedError, WaitingError, Worker, type Job } from "bullmq";
import type { Kv } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import type { Queue, QueueEntry } from "./queue.ts";

/** Shortest delay of an entry that could not begin, and pause of a worker whose store refuses, ms. */
const restMs = 1000;

/** Delayed entries that are redelivered each second: thousands may wait for one worktree. */
const redeliveredAtOnce = 50;

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
 * BullMQ on the shared store: one queue for all instances, and one for each, with the entries bound to it. Both workers share
 * the slots. The record decides what a delivery means, so a redelivered entry does no harm.
 */
export const createBullQueue = ({ kv, podName, concurrency, lockSeconds, onError, log }: Options): Queue => {
  /** This connection waits for an unreachable store. */
  const connection = kv.dedicated();
  const running = new Map<string, { worker: Worker; answer: Promise<Answer> }>();
  /** When those that rest are redelivered, here or elsewhere, ms since the epoch. */
  let dueTimes: number[] = [];
  let work: Work | null = null;
  let paused = false;

  const consume = (pod: string | null): Worker => {
    const worker: Worker = new Worker(nameOf(pod), (job, token = "") => deliver(worker, job, token), {
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
    // A worker whose store refuses retries at once.
    worker.on("error", (err) => {
      log.debug({ err }, "the queue's worker failed; it retries in a moment");
      void worker.pause(true);
      setTimeout(steer, restMs).unref();
    });
    return worker;
  };

  const workers = [consume(podName), consume(null)];
  const sharedQueue = openQueue(kv, null);

  /** The workers fetch while there is a free slot. One that has all slots in use fetches nothing by itself. */
  const steer = (): void => {
    for (const worker of workers) {
      const isFree =
        running.size < concurrency || [...running.values()].every((run) => run.worker === worker);
      void (work !== null && !paused && isFree ? worker.resume() : worker.pause(true));
    }
  };

  const deliver = async (worker: Worker, job: Job, token: string): Promise<void> => {
    const id = job.id ?? "";
    const known = running.get(id);
    const isRefused = known === undefined && (work === null || paused || running.size >= concurrency);
    const answer = isRefused
      ? "refused"
      : await (known === undefined ? begin(worker, id) : again(worker, known.answer));
    if (answer === "done") return;
    if (answer === "refused" || work === null || paused) {
      await job.moveToWait(token);
      throw new WaitingError();
    }
    await job.moveToDelayed(nextDueTime(), token);
    throw new DelayedError();
  };

  const nextDueTime = (): number => {
    const now = Date.now();
    dueTimes = dueTimes.filter((due) => due > now);
    const due = now + restMs * (1 + Math.floor(dueTimes.length / redeliveredAtOnce));
    dueTimes.push(due);
    return due;
  };

  const begin = (worker: Worker, id: string): Promise<Answer> => {
    const run = async (): Promise<Answer> => {
      try {
        return (await work?.(id)) ?? "later";
      } catch (error) {
        onError(error, id);
        return "later";
      } finally {
        running.delete(id);
        steer();
      }
    };
    const answer = run();
    running.set(id, { worker, answer });
    steer();
    return answer;
  };

  /** Its lock lapsed while this instance works on it. It stays active until that work ends, in a slot of its own. */
  const again = async (worker: Worker, answer: Promise<Answer>): Promise<Answer> => {
    worker.concurrency += 1;
    await answer;
    worker.concurrency -= 1;
    return await answer;
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
      steer();
      // Lets jobs that have just ended acknowledge their entries.
      await setImmediate();
      await Promise.all([...workers.map((worker) => worker.close(true)), sharedQueue.close()]);
      // The answer comes after those of all earlier commands.
      const quit = connection.quit().catch(() => undefined);
      await Promise.race([quit, sleep(closeTimeout, null, { ref: false })]);
      connection.disconnect();
    },
  };
};

type Work = Parameters<Queue["start"]>[0];

type Answer = Awaited<ReturnType<Work>>;

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
