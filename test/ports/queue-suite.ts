import { describe, expect, test } from "vitest";
import type { Queue } from "../../src/jobs/queue.ts";
import { until } from "../until.ts";

type Opened = {
  queue: Queue;
  /** Ids whose worker threw. */
  thrown: string[];
};

type Harness = {
  /** An empty queue of the instance `here`, closed after the file. */
  open: (options: { concurrency: number }) => Promise<Opened>;
};

export const anywhere = (id: string) => ({ id, boundTo: null });
export const here = "here";
const onlyHere = (id: string) => ({ id, boundTo: here });

/** A worker whose jobs run until the test ends them. */
export const handWork = () => {
  const handed: string[] = [];
  const running = new Map<string, (answer: "done" | "later") => void>();
  return {
    handed,
    running,
    work: (id: string): Promise<"done" | "later"> => {
      handed.push(id);
      return new Promise((resolve) => running.set(id, resolve));
    },
    end: (id: string, answer: "done" | "later" = "done"): void => {
      running.get(id)?.(answer);
      running.delete(id);
    },
  };
};

/** The behaviour of every adapter of the queue. */
export const queueSuite = (name: string, { open }: Harness): void => {
  describe(`queue: ${name}`, () => {
    test("ids are delivered first in, first out, also those that waited before the start", async () => {
      const { queue } = await open({ concurrency: 1 });
      const ids = Array.from({ length: 20 }, (_, at) => `job-${at}`);
      await queue.add(...ids.slice(0, 5).map(anywhere));
      for (const id of ids.slice(5, 10)) await queue.add(anywhere(id));
      const handed: string[] = [];
      queue.start(async (id) => {
        handed.push(id);
        return "done";
      });
      for (const id of ids.slice(10)) await queue.add(anywhere(id));
      await until(() => handed.length === ids.length);
      expect(handed).toEqual(ids);
    });

    test("no more ids than the limit are worked on at once, bound and unbound together", async () => {
      const { queue } = await open({ concurrency: 3 });
      let now = 0;
      let most = 0;
      let ended = 0;
      queue.start(async () => {
        now += 1;
        most = Math.max(most, now);
        await new Promise((resolve) => setTimeout(resolve, 2));
        now -= 1;
        ended += 1;
        return "done";
      });
      const ids = Array.from({ length: 40 }, (_, at) => `job-${at}`);
      await queue.add(...ids.map((id, at) => (at % 2 === 0 ? anywhere(id) : onlyHere(id))));
      await until(() => ended === ids.length);
      expect(most).toBe(3);
    });

    test("a free slot is filled as soon as something is added", async () => {
      const { queue } = await open({ concurrency: 2 });
      const { work, running, end } = handWork();
      queue.start(work);
      await queue.add(anywhere("a"));
      await until(() => running.has("a"));
      await queue.add(onlyHere("b"));
      await until(() => running.has("b"));
      await queue.add(anywhere("c"));
      expect([...running.keys()]).toEqual(["a", "b"]);
      end("a");
      await until(() => running.has("c"));
      end("b");
      end("c");
    });

    test("a paused queue delivers nothing, and running jobs continue", async () => {
      const { queue } = await open({ concurrency: 2 });
      const { work, running, handed, end } = handWork();
      queue.start(work);
      await queue.add(anywhere("a"));
      await until(() => running.has("a"));
      queue.pause();
      await queue.add(anywhere("b"), onlyHere("c"));
      end("a");
      await turns(queue);
      expect(handed).toEqual(["a"]);
      queue.resume();
      await until(() => running.has("b") && running.has("c"));
      end("b");
      end("c");
    });

    test("a stopped queue delivers nothing, and running jobs continue; another start delivers the rest", async () => {
      const { queue } = await open({ concurrency: 1 });
      const { work, running, handed, end } = handWork();
      queue.start(work);
      await queue.add(anywhere("a"), anywhere("b"));
      await until(() => running.has("a"));
      queue.stop();
      expect(running.has("a")).toBe(true);
      end("a");
      await turns(queue);
      expect(handed).toEqual(["a"]);
      queue.start(work);
      await until(() => running.has("b"));
      end("b");
    });

    test("a removed id is not delivered; one that is worked on is not touched", async () => {
      const { queue } = await open({ concurrency: 1 });
      const { work, running, handed, end } = handWork();
      queue.start(work);
      await queue.add(anywhere("a"), anywhere("b"), anywhere("c"));
      await until(() => running.has("a"));
      await queue.add(onlyHere("d"), onlyHere("e"));
      for (const id of ["a", "b", "unknown"]) await queue.remove(anywhere(id));
      await queue.remove(onlyHere("d"));
      await until(() => {
        for (const id of running.keys()) end(id);
        return handed.includes("c") && handed.includes("e");
      });
      expect(handed.toSorted()).toEqual(["a", "c", "e"]);
    });

    test("an id that waits or is worked on is not added twice; a finished one is", async () => {
      const { queue } = await open({ concurrency: 1 });
      const { work, running, handed, end } = handWork();
      queue.start(work);
      await queue.add(anywhere("a"));
      await until(() => running.has("a"));
      await queue.add(anywhere("b"), anywhere("a"), anywhere("b"));
      await queue.add(anywhere("b"));
      await queue.add(anywhere("c"));
      end("a");
      await until(() => running.has("b"));
      end("b");
      await until(() => running.has("c"));
      end("c");
      await turns(queue);
      expect(handed).toEqual(["a", "b", "c"]);
      await queue.add(anywhere("a"));
      await until(() => running.has("a"));
      end("a");
    });

    test("an id that has to wait is redelivered although no other ends", async () => {
      const { queue } = await open({ concurrency: 2 });
      const { work, running, handed, end } = handWork();
      queue.start(work);
      await queue.add(anywhere("long"), anywhere("a"));
      await until(() => running.has("a"));
      end("a", "later");
      await until(() => running.has("a"));
      end("a");
      end("long");
      expect(handed).toEqual(["long", "a", "a"]);
    });

    test("a resting id is forgotten when it is removed", async () => {
      const { queue } = await open({ concurrency: 2 });
      const { work, running, handed, end } = handWork();
      queue.start(work);
      await queue.add(anywhere("a"), anywhere("b"));
      await until(() => running.size === 2);
      end("a", "later");
      end("b", "later");
      await turns(queue);
      await queue.remove(anywhere("a"));
      await until(() => running.has("b"));
      await turns(queue);
      expect(handed).toEqual(["a", "b", "b"]);
      end("b");
    });

    test("an id whose worker throws is redelivered, and the error is reported", async () => {
      const { queue, thrown } = await open({ concurrency: 1 });
      const handed: string[] = [];
      queue.start(async (id) => {
        handed.push(id);
        if (handed.length === 1) throw new Error("the store is away");
        return "done";
      });
      await queue.add(anywhere("a"));
      await until(() => handed.length === 2);
      expect(handed).toEqual(["a", "a"]);
      expect(thrown).toEqual(["a"]);
    });
  });
};

/** More round trips than the delivery of all waiting ids takes. */
const turns = async (queue: Queue): Promise<void> => {
  for (let turn = 0; turn < 30; turn += 1) {
    await queue.remove(anywhere("unknown"));
    await new Promise((resolve) => setImmediate(resolve));
  }
};
