import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { Kv } from "../kv/kv.ts";
import type { Bell } from "../lib/bell.ts";
import type { Log } from "../lib/log.ts";
import { openEntrance, openLine, type Entrance, type Entry } from "./bullmq-line.ts";
import type { Queue, QueueEntry } from "./queue.ts";

/** How often a consumer looks although nobody rang, and how long an id rests about that has to wait, ms. */
const rest = 1000;

/**
 * How many that have to wait are looked at again at once: thousands that wait for one worktree must not keep those behind
 * them from their turn.
 */
const mostBack = 50;

type Options = {
  kv: Kv;
  /** Heard by all instances. */
  bell: Bell;
  podName: string;
  concurrency: number;
  /** After so long an entry of an instance that is gone is handed out again. */
  lockSeconds: number;
  /** Hears of a worker that threw. */
  onError: (error: unknown, id: string) => void;
  log: Log;
};

/**
 * BullMQ on the shared store: one line for all instances, and one for each instance. Entries are taken by hand, and
 * only while a slot is free, so that both lines share the slots; one's own line goes first. While the store is away
 * nothing is handed out; what could not be told to it is told once it is back.
 */
export const createBullQueue = (options: Options): Queue => {
  const { kv, bell, podName, concurrency, lockSeconds, onError, log } = options;
  const epoch = randomUUID();
  const own = openLine({ kv, name: nameOf(podName), podName, epoch, lockSeconds });
  const shared = openLine({ kv, name: nameOf(null), podName, epoch, lockSeconds });
  const entrances = new Map([podName, null].map((pod) => [pod, openEntrance({ kv, name: nameOf(pod) })]));
  const lines = [own, shared];
  const owed = new Set<Owed>();
  const underWay = new Set<Promise<unknown>>();
  const closing = new AbortController();
  const timers: NodeJS.Timeout[] = [];
  let work: Work | null = null;
  let paused = false;
  let busy = 0;
  let pumping = false;
  let again = false;

  /** Fills the free slots. */
  const pump = async (): Promise<void> => {
    again = true;
    if (pumping) return;
    pumping = true;
    try {
      while (again) {
        again = false;
        while (handsOut() && busy < concurrency) {
          const entry = await takeNext();
          if (entry === null) break;
          begin(entry);
        }
      }
    } catch (err) {
      log.debug({ err }, "no job could be taken; it is tried again");
    } finally {
      pumping = false;
    }
  };

  const handsOut = (): boolean => work !== null && !paused;

  const takeNext = async (): Promise<Entry | null> => {
    for (const line of lines) {
      const entry = line.mayHold() ? await line.take() : null;
      if (entry !== null) return entry;
    }
    return null;
  };

  /** What was taken while we were told to hand out no more goes back. */
  const begin = (entry: Entry): void => {
    if (work === null || paused) return void track(settle({ entry, what: "back", since: 0 }));
    busy += 1;
    void run(entry, work);
  };

  const run = async (entry: Entry, handle: Work): Promise<void> => {
    const answer = await handle(entry.id).catch((error: unknown): "later" => {
      onError(error, entry.id);
      return "later";
    });
    await track(conclude(entry, answer));
    void track(pump());
  };

  const conclude = async (entry: Entry, answer: "done" | "later"): Promise<void> => {
    const { line } = entry;
    const andNext = answer === "done" && handsOut() && line.mayHold() && (line === own || !own.mayHold());
    // The slot is kept for what comes with the answer.
    if (!andNext) busy -= 1;
    if (answer === "later") {
      owed.add({ entry, what: "back", since: performance.now() });
    } else if (andNext) {
      const next = await line.complete(entry, { andNext }).catch(owing(entry));
      busy -= 1;
      if (next !== null) begin(next);
    } else void track(settle({ entry, what: "done", since: 0 }));
  };

  const owing =
    (entry: Entry) =>
    (error: unknown): null => {
      owed.add({ entry, what: "done", since: 0 });
      log.debug({ err: error, job: entry.id }, "the queue's entry could not be ended; it is tried again");
      return null;
    };

  const settle = async (debt: Owed): Promise<void> => {
    const { entry, what } = debt;
    owed.delete(debt);
    try {
      if (what === "done") await entry.line.complete(entry, { andNext: false });
      else await entry.line.giveBack(entry);
    } catch (err) {
      owed.add(debt);
      log.debug({ err, job: entry.id }, "the queue's entry could not be given up; it is tried again");
    }
  };

  /** The oldest last: each goes to the front. What rests need not when nothing is handed out here. */
  const settleOwed = async (): Promise<void> => {
    const before = handsOut() ? performance.now() - rest / 2 : Infinity;
    const ripe = [...owed].filter(({ since }) => since <= before);
    const back = ripe.filter(({ what }) => what === "back").slice(0, handsOut() ? mostBack : Infinity);
    const due = [...back.toReversed(), ...ripe.filter(({ what }) => what === "done")];
    await Promise.all(due.map(settle));
    if (due.length > 0) for (const pod of [podName, null]) bell.ring(bellOf(pod));
  };

  const tick = async (): Promise<void> => {
    for (const line of lines) line.look();
    await settleOwed();
    await pump();
  };

  const keep = async (): Promise<void> => {
    for (const line of lines) {
      try {
        const lost = await line.keep();
        if (lost.length > 0) log.debug({ jobs: lost }, "locks of the queue's entries have lapsed");
      } catch (err) {
        log.debug({ err }, "locks of the queue's entries could not be extended");
      }
    }
  };

  const track = <Value>(promise: Promise<Value>): Promise<Value> => {
    underWay.add(promise);
    void promise.finally(() => underWay.delete(promise));
    return promise;
  };

  const listen = async (pod: string | null): Promise<void> => {
    while (!closing.signal.aborted) {
      await bell.next(bellOf(pod), closing.signal);
      wake(pod);
    }
  };

  const wake = (pod: string | null): void => {
    (pod === null ? shared : own).look();
    void track(pump());
  };

  const wakeAll = (): void => {
    for (const pod of [podName, null]) wake(pod);
  };

  /** Entrances of other instances are used seldom and are many in time: they are not kept. */
  const through = async (pod: string | null, use: (entrance: Entrance) => Promise<void>): Promise<void> => {
    const kept = entrances.get(pod);
    const entrance = kept ?? openEntrance({ kv, name: nameOf(pod) });
    try {
      await use(entrance);
    } finally {
      if (kept === undefined) await entrance.close();
    }
  };

  const addTo = async (pod: string | null, entries: QueueEntry[]): Promise<void> => {
    try {
      await through(pod, (entrance) => entrance.add(entries));
    } catch (err) {
      log.warn(
        { err, jobs: entries.map(({ id }) => id) },
        "jobs could not be put into the queue; the next sweep does it",
      );
    }
    if (pod === podName || pod === null) wake(pod);
    bell.ring(bellOf(pod));
  };

  return {
    add: async (...entries) => {
      const groups = Map.groupBy(entries, ({ boundTo }) => boundTo);
      await Promise.all([...groups].map(([pod, group]) => addTo(pod, group)));
    },
    remove: async ({ id, boundTo }) => {
      for (const debt of owed) if (debt.entry.id === id) debt.what = "done";
      await through(boundTo, (entrance) => entrance.remove(id)).catch((err: unknown) => {
        log.debug({ err, job: id }, "the job could not be taken out of the queue; it is handed out in vain");
      });
    },
    start: (handle) => {
      work = handle;
      if (timers.length === 0) {
        timers.push(setInterval(() => void track(tick()), rest));
        timers.push(setInterval(() => void track(keep()), (lockSeconds * 1000) / 3));
        for (const pod of [podName, null]) void listen(pod);
      }
      wakeAll();
    },
    pause: () => {
      paused = true;
    },
    resume: () => {
      paused = false;
      wakeAll();
    },
    stop: () => {
      work = null;
    },
    close: async () => {
      work = null;
      closing.abort();
      for (const timer of timers) clearInterval(timer);
      // What has ended a moment ago is about to be told.
      await setImmediate();
      while (underWay.size > 0) await Promise.allSettled(underWay);
      await settleOwed();
      await Promise.all([...lines, ...entrances.values()].map((part) => part.close()));
    },
  };
};

type Work = Parameters<Queue["start"]>[0];

/** An entry whose slot is free, and what the store is yet to be told: it is done with, or it goes back. */
type Owed = { entry: Entry; what: "done" | "back"; since: number };

/** What a name of the line may not contain is written as in an address. */
const nameOf = (pod: string | null): string => (pod === null ? "jobs" : `jobs.${encodeURIComponent(pod)}`);

const bellOf = (pod: string | null): string => (pod === null ? "queue" : `queue ${pod}`);
