import { setTimeout as sleep } from "node:timers/promises";
import { Queue as BullQueue, DelayedError, WaitingError, Worker, type Job, type QueueOptions } from "bullmq";
import type { Kv } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import type { Queue, QueueEntry } from "./queue.ts";

/** How often a consumer looks after its entries, and about how long one rests that could not begin, ms. */
const rest = 1000;

/**
 * How many rested ones are put back at once: thousands that wait for one worktree must not keep those behind them from
 * their turn.
 */
const mostBack = 50;

/** How long a close waits for a store that is away, ms. */
const patience = 3000;

/** What a dashboard shows of entries that are done with. */
const kept = { age: 86_400, count: 10_000 };

/** After so long without a sign of its instance, or of a job for it, the queue of an instance is deleted, ms. */
const abandoned = 86_400_000;

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
 * BullMQ on the shared store: one queue for all instances and one for each, with a BullMQ worker for both. Both share the
 * slots, and the instance's own goes first: an entry that finds none free goes back in front. A redelivered entry only
 * makes a worker look at the record.
 */
export const createBullQueue = ({ kv, podName, concurrency, lockSeconds, onError, log }: Options): Queue => {
  // Waits for a store that is away.
  const connection = kv.dedicated();
  const running = new Map<string, Promise<Answer>>();
  const resting = new Set<Resting>();
  const underWay = new Set<Promise<unknown>>();
  let work: Work | null = null;
  let paused = false;
  /** Something waits in the instance's own queue for a slot. */
  let ownWaits = false;
  let timer: NodeJS.Timeout | null = null;
  let registeredAt = Number.NEGATIVE_INFINITY;

  const isOpen = (): boolean => work !== null && !paused;

  const openLine = (pod: string | null): Line => {
    const worker = new Worker(nameOf(pod), (job, token = "") => deliver(line, job, token), {
      connection,
      prefix: prefixOf(kv),
      skipVersionCheck: true,
      autorun: false,
      concurrency,
      lockDuration: lockSeconds * 1000,
      stalledInterval: lockSeconds * 250,
      // However often an entry was taken in vain: whether its job is lost is for the leases to say.
      maxStalledCount: 2 ** 31,
      removeOnComplete: kept,
      removeOnFail: kept,
    });
    const line: Line = { worker, queue: openQueue(kv, pod, {}), busy: 0, failed: false };
    // BullMQ asks again at once when the store refuses: it rests until the next tick.
    worker.on("error", (err) => {
      log.debug({ err }, "the queue's worker failed; it goes on in a moment");
      line.failed = true;
      steer();
    });
    return line;
  };

  const deliver = async (line: Line, job: Job, token: string): Promise<void> => {
    const id = job.id ?? "";
    const isFull = own.busy + shared.busy >= concurrency;
    if (!running.has(id) && (!isOpen() || isFull)) {
      if (line === own) ownWaits = isOpen();
      steer();
      return await putBack(job, token);
    }
    const answer = await (running.has(id) ? again(line, id) : begin(line, id));
    if (answer === "done") return;
    if (!isOpen()) return await putBack(job, token);
    const fallback = rest * (2 + Math.floor(resting.size / mostBack));
    await track(job.moveToDelayed(Date.now() + fallback, token));
    resting.add({ job, since: performance.now() });
    throw new DelayedError();
  };

  /** To the front. */
  const putBack = async (job: Job, token: string): Promise<never> => {
    await track(job.moveToWait(token));
    throw new WaitingError();
  };

  /** Its lock has lapsed while it is worked on here: it stays active until that ends, in no slot of another. */
  const again = async ({ worker }: Line, id: string): Promise<Answer> => {
    worker.concurrency += 1;
    const answer = await (running.get(id) ?? "later");
    worker.concurrency -= 1;
    return answer;
  };

  const begin = (line: Line, id: string): Promise<Answer> => {
    const handle = work ?? (async () => "later" as const);
    if (line === own) ownWaits = false;
    line.busy += 1;
    steer();
    const answer = handle(id)
      .catch((error: unknown): Answer => {
        onError(error, id);
        return "later";
      })
      .finally(() => {
        running.delete(id);
        line.busy -= 1;
        steer();
      });
    running.set(id, answer);
    return answer;
  };

  /** Lets those workers take entries that may. The shared queue's takes none while one of the instance's own waits. */
  const steer = (): void => {
    const busy = own.busy + shared.busy;
    const hasRoom = busy < concurrency;
    set(own, hasRoom || !ownWaits);
    // One that has all the slots takes no more by itself.
    set(shared, !ownWaits && (hasRoom || shared.busy === busy));
  };

  const set = ({ worker, failed }: Line, mayTake: boolean): void => {
    void (isOpen() && mayTake && !failed ? worker.resume() : worker.pause(true));
  };

  /** Puts the oldest of those that rest in front. BullMQ itself would put them last, a while later. */
  const putForward = async (before: number, most: number): Promise<void> => {
    const rested = [...resting].filter(({ since }) => since <= before).slice(0, most);
    for (const one of rested) resting.delete(one);
    // One that was removed meanwhile, or is being worked on, stays as it is.
    await Promise.allSettled(rested.map(({ job }) => job.promote()));
    await Promise.allSettled(
      rested.toReversed().map(({ job }) => job.changePriority({ priority: 0, lifo: true })),
    );
  };

  const tick = (): void => {
    for (const line of [own, shared]) line.failed = false;
    steer();
    void track(putForward(performance.now() - rest / 2, mostBack));
    if (performance.now() - registeredAt < abandoned / 24) return;
    registeredAt = performance.now();
    void track(
      deleteAbandoned().catch((err: unknown) => log.debug({ err }, "old queues could not be deleted")),
    );
  };

  const closeDoor = (): void => {
    steer();
    void track(putForward(Infinity, Infinity));
  };

  const track = <Value>(promise: Promise<Value>): Promise<Value> => {
    const forget = (): void => void underWay.delete(promise);
    underWay.add(promise);
    promise.then(forget, forget);
    return promise;
  };

  const use = async (pod: string | null, then: (queue: BullQueue) => Promise<unknown>): Promise<void> => {
    if (pod === null) return void (await then(shared.queue));
    if (pod === podName) return void (await then(own.queue));
    // Those of other instances are used seldom and are many in time: they are not kept.
    const queue = openQueue(kv, pod, { skipMetasUpdate: true });
    await then(queue).finally(() => queue.close());
  };

  /** When each instance's queue was last used. */
  const register = kv.key("queues");

  const deleteAbandoned = async (): Promise<void> => {
    const now = kv.now().getTime();
    await kv.client.zadd(register, now, podName);
    for (const pod of await kv.client.zrangebyscore(register, 0, now - abandoned)) {
      await use(pod, (queue) => queue.obliterate({ force: true }));
      await kv.client.zrem(register, pod);
    }
  };

  const addTo = async (pod: string | null, entries: QueueEntry[]): Promise<void> => {
    try {
      if (pod !== null) await kv.client.zadd(register, kv.now().getTime(), pod);
      await use(pod, (queue) => Promise.all(entries.map(({ id }) => addOne(queue, id))));
    } catch (err) {
      log.warn(
        { err, jobs: entries.map(({ id }) => id) },
        "jobs could not be put into the queue; the next sweep does it",
      );
    }
  };

  const own = openLine(podName);
  const shared = openLine(null);
  own.worker.on("drained", () => {
    ownWaits = false;
    steer();
  });

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
      tick();
    },
    pause: () => {
      paused = true;
      closeDoor();
    },
    resume: () => {
      paused = false;
      steer();
    },
    stop: () => {
      work = null;
      closeDoor();
    },
    close: async () => {
      work = null;
      if (timer !== null) clearInterval(timer);
      closeDoor();
      await Promise.race([Promise.allSettled(underWay), sleep(patience, null, { ref: false })]);
      await Promise.all([own, shared].flatMap(({ worker, queue }) => [worker.close(true), queue.close()]));
      connection.disconnect();
    },
  };
};

type Work = Parameters<Queue["start"]>[0];

type Answer = "done" | "later";

/** A queue of BullMQ and what consumes it here; `busy`: how many of it are worked on. */
type Line = { worker: Worker; queue: BullQueue; busy: number; failed: boolean };

type Resting = { job: Job; since: number };

/** What a queue's name may not contain is written as in an address. */
const nameOf = (pod: string | null): string => (pod === null ? "jobs" : `jobs.${encodeURIComponent(pod)}`);

/** The braces keep all keys of the queues in one slot. */
const prefixOf = (kv: Kv): string => `{${kv.prefix}:q}`;

/** To add to and remove from; cheap. Its connection is the service's own, which fails at once while the store is away. */
const openQueue = (kv: Kv, pod: string | null, options: Partial<QueueOptions>): BullQueue => {
  const queue = new BullQueue(nameOf(pod), {
    connection: kv.client,
    prefix: prefixOf(kv),
    skipVersionCheck: true,
    skipWaitingForReady: true,
    streams: { events: { maxLen: 100 } },
    ...options,
  });
  queue.on("error", () => undefined);
  return queue;
};

/** One that waits already, or is being worked on, stays as it is; one that is done with is added anew. */
const addOne = async (queue: BullQueue, id: string): Promise<void> => {
  // The record says all there is to say.
  const add = (): Promise<unknown> => queue.add("run", {}, { jobId: id });
  const [known] = await Promise.all([queue.getJob(id), add()]);
  if (known?.finishedOn === undefined) return;
  await queue.remove(id);
  await add();
};
